"""The packaged experiments of a paper agree with each other, and with what the paper says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import telerank_e5
from papers import read_paper, training
from telerank.experiments.packaged import find_training, packaged_names
from telerank.experiments.schema import GivenModel, TrainedModel, merge, model_words
from telerank.expressions import parse_expression
from telerank.training.reader.config import QuestionSource, ReaderTraining

SMALL = pytest.mark.parametrize("small", [False, True])
REPBERT = [f"repbert/{name}" for name in ("table1", "table2", "table3", "table4", "mismatch")] + [
    f"repbert/{name}" for name in ("figure1a", "figure1b", "figure2")
]
MONOBERT = ["monobert/table1", "monobert/figure1"]
PIAF = [f"piaf/{name}" for name in ("table5", "grid", "figure11", "figure12", "figure14", "figure15")]
ANSWERS = [f"piaf/{name}" for name in ("answers", "answers-dila", "answers-end-to-end", "no-answers")]
BEST = [f"best/{name}" for name in ("table1", "table2", "figure1", "figure2", "documents")]
SHIPPED = Path(telerank_e5.__file__).parent / "models"
FINE_TUNED = "MonoBERT ranker, fine-tuned"


@SMALL
def test_all_files_of_a_paper_train_the_same_models(small):
    for data in ("msmarco", "msmarco-slice"):
        repbert = [read_paper(name, small=small).on(data) for name in REPBERT]
        assert len({training(experiment, "RepBERT").model_dump_json() for experiment in repbert}) == 1
        both = [*repbert, *(read_paper(name, small=small).on(data) for name in MONOBERT)]
        assert len({training(experiment, "monoBERT").model_dump_json() for experiment in both}) == 1
    for model in read_paper("piaf/table5").trained:
        settings = {training(read_paper(name, small=small), model).model_dump_json() for name in PIAF}
        assert len(settings) == 1
    readers = {name: read_paper(name, small=small).models["all sets"] for name in ANSWERS}
    trained = [reader for reader in readers.values() if isinstance(reader, TrainedModel)]
    assert all(reader == trained[0] for reader in trained)
    given = {name for name, reader in readers.items() if isinstance(reader, GivenModel)}
    assert given == ({"piaf/answers-dila", "piaf/answers-end-to-end"} if small else set())


@pytest.mark.parametrize("name", [*MONOBERT, *REPBERT])
def test_small_copies_are_run_on_the_first_data_that_is_here(name):
    small = read_paper(name, small=True)
    assert not any(spec.paper for spec in small.data.values())
    assert next(iter(small.data)) == "msmarco-slice"
    assert name not in REPBERT or small.seeds == (0, 1, 2)


@pytest.mark.parametrize("name", sorted({*packaged_names()} - {"demo", "sparse-quality"}))
def test_small_copies_say_how_long_they_take(name):
    small = read_paper(name, small=True)
    minutes = small.minutes
    assert minutes is not None
    assert not isinstance(minutes, dict) or minutes.keys() <= {
        *small.data,
        *(spec.pool for spec in small.data.values()),
    }


@SMALL
@pytest.mark.parametrize(
    "name", ["learned-sparse/english", "learned-sparse/french", "ranker-causes", "repbert-segments"]
)
def test_the_trainings_of_learned_stages_and_of_causes_are_valid(name, small):
    whole = read_paper(name, small=small)
    for data in whole.data:
        experiment = whole.on(data)
        used = {word for text in experiment.systems.values() for word in model_words(parse_expression(text))}
        starts = {str(own.settings.get("model", {}).get("start")) for own in experiment.trained.values()}
        assert experiment.trained.keys() <= used | starts
        for model, settings in experiment.trained.items():
            assert settings.train == "mlm" or training(experiment, model).data.split == "train"


@SMALL
def test_the_re_rankers_of_the_mismatch_differ_in_their_negatives_alone(small):
    experiment = read_paper("repbert/mismatch", small=small).on("msmarco-slice" if small else "msmarco")
    first, second = (training(experiment, name) for name in ("monoBERT", "monoBERT-RepBERT"))
    assert second.data.negatives.run == "RepBERT"
    assert (second.model, second.loss, second.optimisation) == (first.model, first.loss, first.optimisation)
    assert (second.precision, second.data.pairs) == (first.precision, first.data.pairs)
    kinds = [analysis.kind for analysis in experiment.analyses]
    assert kinds == ["reranking", "reranking", "consistency", "consistency"]


def test_systems_and_analyses_of_ms_marco_are_those_of_the_papers():
    for name in REPBERT:
        assert read_paper(name).on("msmarco").systems["RepBERT"] == "dense(RepBERT) % 1000"
    for name in ("table2", "figure1b"):
        (analysis,) = read_paper(f"repbert/{name}").analyses
        assert analysis.rerankers == {"BERT Large": "rerank(monoBERT)"}
    cut, whole = read_paper("repbert/table4").analyses
    assert (cut.keep, whole.keep, whole.measures) == (None, 2000, "R@2000")  # recall without truncation
    assert read_paper("monobert/table1").on("msmarco").systems["candidates"] == "pool(top1000)"
    copy = read_paper("monobert/table1", small=True).on("msmarco-slice")
    assert copy.systems["candidates"] == "pool(top20)"
    (analysis,) = read_paper("monobert/table1").on("trec-car").analyses
    assert analysis.measures == ("AP",)
    assert read_paper("bert-dmn/table2").systems["candidates"] == "relevant(pool(500))"
    (quality,) = read_paper("bert-dmn/table2").on("msmarco").analyses
    assert quality.measures == ("RR(rel=2)", "AP(rel=2)", "RR", "AP")


@SMALL
@pytest.mark.parametrize("data", ["insuranceqa-v2", "msmarco"])
def test_the_models_of_figure_3_are_those_of_table_2(data, small):
    table, figure = (read_paper(f"bert-dmn/{name}", small=small).on(data) for name in ("table2", "figure3"))
    assert figure.systems.items() <= table.systems.items()
    assert figure.queries == table.queries
    assert set(figure.seeds) <= set(table.seeds)
    for model in ("BERT", "BERT-DMN"):
        assert training(figure, model) == training(table, model)
    assert figure.analyses[0] == table.analyses[0]  # which shows the same values


def test_table_3_trains_the_models_of_table_2():
    table, throughput = read_paper("bert-dmn/table2"), read_paper("bert-dmn/table3")
    for data in throughput.data:
        for model in throughput.trained:
            ours, theirs = (training(spec.on(data), model) for spec in (throughput, table))
            assert (ours.model, ours.loss, ours.data) == (theirs.model, theirs.loss, theirs.data)


@pytest.mark.parametrize(
    ("name", "data", "row", "values"),
    [
        ("bert-dmn/table2", "insuranceqa-v2", "BERT-DMN", {"AP": 0.406, "RR": 0.484}),
        ("bert-dmn/table2", "msmarco", "BERT-DMN", {"AP(rel=2)": 0.408, "RR(rel=2)": 0.889}),
        ("monobert/table1", "msmarco", "IRNet", {"RR@10": 0.278, "RR@10 eval": 0.281}),
        ("monobert/table1", "trec-car", "BM25 (Anserini, tuned)", {"AP": 0.153}),
        (
            "piaf/table5",
            "squadfr-fquad-piaf",
            "BM25 + ranker",
            {"Success@10": 0.85, "Success@1": 0.67, "AP": 0.74},
        ),
        (
            "repbert/table1",
            "msmarco",
            "RepBERT",
            {"RR@10": 0.304, "RR@10 test": 0.294, "R@1000": 0.943, "ms/query": 80},
        ),
        (
            "repbert/table2",
            "msmarco",
            "docTTTTTquery",
            {"5": 0.314, "10": 0.351, "50": 0.375, "500": 0.380, "1000": 0.380},
        ),
    ],
)
def test_the_columns_of_published_values_are_those_of_the_tables(name, data, row, values):
    assert read_paper(name).published[data][row] == values


@SMALL
def test_the_report_scales_sparse_scores_alone_and_counts_questions_with_a_relevant_document(small):
    systems = read_paper("piaf/table5", small=small).systems
    for name, model in (("BM25 + classifier", "MonoBERT classifier"), ("BM25 + ranker", "MonoBERT ranker")):
        assert systems[name] == f"tuned(minmax(BM25), prob('{model}'), by=AP, folds=5, grid=square)"
    for name in ("table5", "table1", "grid", "bi-encoders"):
        analyses = read_paper(f"piaf/{name}", small=small).analyses
        measures = [measure for analysis in analyses for measure in analysis.measures]
        assert any(measure.startswith("Success@") for measure in measures)
        assert not any(measure.startswith("R@") for measure in measures)


def test_the_small_copies_read_and_count_as_the_report_and_no_question_is_cut():
    small = training(read_paper("piaf/table5", small=True), FINE_TUNED)
    assert (small.optimisation.batch, small.data.negatives.per_group) == (12, 1)
    assert (small.model.max_query, small.model.max_length, small.dev.measures) == (None, 512, "loss")
    longest = read_paper("piaf/ranking-set").published["squadfr-fquad-piaf"]["tokens of the longest question"]
    for model in ("Sentence-BERT", "DPR"):
        lengths = read_paper("piaf/bi-encoders").trained[model].settings["model"]
        assert lengths["query_length"] >= longest["count"] + 2 + 3  # special tokens, and E5's prompt
        assert lengths["document_length"] == 512


def test_tables_1_and_2_are_the_best_of_each_grid_with_and_without_preprocessing():
    for name, measure in (("table1", "Success"), ("table2", "AP")):
        experiment = read_paper(f"piaf/{name}")
        (analysis,) = experiment.analyses
        assert (analysis.depth_measures, analysis.every_analyzer, analysis.folds) == ((measure,), True, None)
        assert [spec.analyzer for spec in experiment.data.values()] == ["french"] * 3  # besides "none"
        assert list(experiment.published) == ["dila"]
        assert experiment.published["dila"]["BM25"][f"{measure}@1"] == 0.71


def test_table_6_has_the_fine_tuned_ranker_of_table_5():
    six, five = (read_paper(f"piaf/{name}") for name in ("table6", "table5"))
    data = six.trained[FINE_TUNED].settings["data"]["collection"]
    assert training(six, FINE_TUNED) == training(five.on(data), FINE_TUNED)
    assert six.sets[data].made_of == five.data[data].made_of
    small = read_paper("piaf/table6", small=True)
    assert small.models[FINE_TUNED].names == ("reranker-fr-en",)
    assert small.systems == six.systems


def test_the_models_that_come_with_telerank_learned_from_the_parts_that_small_copies_do_not_measure():
    reader, ranker = (
        yaml.safe_load(find_training(f"e5/{name}").read_text()) for name in ("reader", "reranker")
    )
    learned = json.loads((SHIPPED / "reader-fr-en" / "compact.json").read_text())["training"]["config"]
    for settings in (reader, learned):
        assert settings["articles"] == {"test": 0.2, "dev": 0.1, "seed": 3}
        assert {source["part"] for source in settings["data"]["sets"]} == {"train"}
    made = ranker["data"]["made_of"]
    assert (made["split_by"], made["seed"], ranker["data"]["split"]) == ("article", 3, "train")
    assert not read_paper("piaf/answers-end-to-end", small=True).trained
    (analysis,) = read_paper("piaf/no-answers", small=True).analyses
    assert analysis.readers == ("comes with telerank",)


@SMALL
@pytest.mark.parametrize("name", ANSWERS)
def test_readers_are_trained_and_measured_on_the_same_parts_of_articles(name, small):
    experiment = read_paper(name, small=small)
    shares = {"test": 0.2, "dev": 0.1, "seed": 3}
    for data in experiment.data.values():
        assert data.made_as != "article-parts" or data.recipe == shares
    for model in experiment.trained.values():
        if model.train == "reader":
            settings = {**model.settings, "model": {**model.settings["model"], "start": "e5-small"}}
            reader = ReaderTraining.model_validate(settings)
            assert reader.articles.model_dump() == shares
            assert {source.part for source in reader.data.sets} == {"train"}
            assert {source.part for source in reader.dev.sets} == {"dev"}
    for analysis in experiment.analyses:
        if analysis.kind == "answers":
            assert analysis.articles == shares
            assert {QuestionSource.model_validate(each).part for each in analysis.sets.values()} == {"test"}


def test_the_system_of_answers_has_the_ranker_of_table_5_and_other_questions():
    """Table 5's questions are drawn from all articles: among them are those that measure end to end."""
    system, small = (read_paper("piaf/answers-end-to-end", small=small) for small in (False, True))
    ranker = training(system, "re-ranker")
    five = training(read_paper("piaf/table5"), FINE_TUNED)
    assert ranker.model == five.model.model_copy(update={"start": ranker.model.start})
    assert (ranker.loss, ranker.optimisation) == (five.loss, five.optimisation)
    assert (ranker.data.queries, ranker.data.negatives.per_group) == (five.data.queries, 1)
    assert ranker.data.negatives.per_positive == five.data.negatives.per_positive
    dev = ranker.dev
    assert (dev.measures, dev.every, dev.queries) == ("loss", five.dev.every, five.dev.queries)
    assert ranker.precision == five.precision
    assert system.data["piaf-fquad"].made_as == "article-parts"
    assert small.models["re-ranker"].names == ("reranker-fr-en",)
    assert small.systems == system.systems
    assert (ranker.data.split, dev.split) == ("train", "dev")


def test_dila_is_ranked_by_segments_with_the_re_ranker_of_answers_end_to_end():
    dila, system = read_paper("piaf/answers-dila"), read_paper("piaf/answers-end-to-end")
    ranker, other = (experiment.trained["re-ranker"].settings for experiment in (dila, system))
    assert ranker["data"] == {**other["data"], "collection": "piaf-fquad"}
    assert {**ranker, "data": None} == {**other, "data": None}
    learned = dila.learn_from("piaf-fquad").data["piaf-fquad"]
    given = system.data["piaf-fquad"]
    for name in ("made_of", "made_as", "recipe", "split", "analyzer"):
        assert getattr(learned, name) == getattr(given, name)


@SMALL
def test_table_6_has_the_published_values_beside_the_weights_of_a_grid(small):
    """Section 6.5 chooses both weights; equal ones have a row of their own, without a value of the report."""
    table = read_paper("piaf/table6", small=small)
    published = table.published["dila"]
    assert [*published] == ["BM25", f"BM25 + {FINE_TUNED}"]
    assert table.systems[f"BM25 + {FINE_TUNED}"].startswith("tuned(minmax(BM25), 'mean over passages'")
    assert table.systems["the same, equal weights"] == "0.5*minmax(BM25) + 0.5*'mean over passages'"


@pytest.mark.parametrize("name", packaged_names())
def test_dev_measures_of_long_lists_are_of_a_declared_number_of_queries(name):
    """All of a large dev split would cost more than what is learned from; the Piaf report's is a tenth of it."""
    experiment = read_paper(name)
    for data in experiment.data:
        alone = experiment.on(data)
        for model in alone.trained.values():
            settings = merge(alone.training if model.train == "reranker" else {}, model.settings)
            dev = settings.get("dev") or {}
            if model.train == "reranker" and dev and dev.get("depth", 1000) > 10:
                assert dev.get("queries"), (data, model)


@SMALL
@pytest.mark.parametrize("name", BEST)
def test_negatives_of_sets_that_are_here_are_relevant_elsewhere(name, small):
    """Folds and kept-back queries are by document: what no query of the training asks for is no negative."""
    spec = read_paper(name, small=small)
    here = [data for data, settings in spec.data.items() if not settings.paper]
    assert here
    for data in here:
        assert spec.on(data).training["data"]["negatives"]["only"] == "relevant-elsewhere", data


def test_dev_queries_of_far_english_are_none_that_mono_bert_has_learned_from():
    """It learns from train queries of the slice of MS MARCO that far-english is made of."""
    spec = read_paper("best/figure2").on("far-english")
    learned = spec.models["monoBERT"].settings["data"]
    assert (learned["collection"], learned["split"]) == ("msmarco-slice", "train")
    (data,) = spec.data.values()
    assert data.made_of == ("msmarco-slice",)
    parts = {spec.training["dev"]["split"], data.split}
    assert parts == {f"{data.recipe['halved']}-{number}" for number in (1, 2)}
    assert data.recipe["halved"] != "train"


@pytest.mark.parametrize("name", BEST)
def test_robust04_is_in_table_1_alone_whose_systems_are_for_folds(name):
    spec = read_paper(name)
    robust = [data for data in spec.data if data.startswith("robust04")]
    assert robust == (["robust04-title", "robust04-description"] if name == "best/table1" else [])
    for data in robust:
        alone = spec.on(data)
        assert alone.training["folds"] == 5
        assert "maxp" not in "".join(alone.systems.values())


def test_segments_of_far_documents_need_most_of_the_known_passage():
    spec = read_paper("best/figure2")
    rules = {
        data: analysis.rule
        for data in ("far-english", "far-french", "english-long-1")
        for analysis in spec.on(data).analyses
        if analysis.kind == "segments"
    }
    assert rules == {"far-english": "most", "far-french": "most", "english-long-1": "whole"}


@SMALL
def test_every_aggregate_is_measured_by_position_where_relevant_text_is_known(small):
    spec = read_paper("best/documents", small=small)
    kinds = {data: [each.kind for each in spec.on(data).analyses] for data in ("dila", "french-long-1")}
    assert kinds == {"dila": ["quality"], "french-long-1": ["quality", "positions", "behind-first"]}
    (positions,) = (analysis for analysis in spec.analyses if analysis.kind == "positions")
    assert positions.systems is None
    assert spec.systems.keys() >= {"mean", "k-max", "Birch", "equation 21", "PARADE", "BeST"}


@pytest.mark.parametrize(
    ("name", "data"),
    [("table1", "english-long-1"), ("documents", "french-long-1"), ("figure2", "far-english")],
)
def test_best_is_compared_with_first_p_where_the_answer_is_not_in_the_first_segment(name, data):
    spec = read_paper(f"best/{name}").on(data)
    (analysis,) = (each for each in spec.analyses if each.kind == "behind-first")
    assert analysis.system == "BeST"
    assert "firstp(rerank('BERT (First P)')" in spec.systems[analysis.baseline]


@pytest.mark.parametrize("name", ["table1", "figure1", "figure2", "documents"])
def test_models_of_french_documents_split_french_sentences(name):
    """The first of them has learned from English passages; DILA's have learned from French articles."""
    spec = read_paper(f"best/{name}")
    languages = {data: spec.on(data).training["model"]["language"] for data in spec.data}
    french = {data for data in spec.data if spec.data[data].analyzer == "french"}
    assert {data for data, language in languages.items() if language == "fr"} == french
    assert french
    assert spec.models["monoBERT"].settings["model"]["language"] == "en"
