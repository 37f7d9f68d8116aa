"""The packaged experiments of the papers: that they are read, what `small` makes of them, what was printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import telerank
from telerank.experiments.functions import ExperimentFunctions
from telerank.experiments.schema import EXPERIMENT_FUNCTIONS, Experiment, merge, read_experiment
from telerank.pipelines.functions import FUNCTIONS
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.reader.config import ReaderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan

EXPERIMENTS = Path(telerank.__file__).parent / "experiments"
PAPERS = EXPERIMENTS / "papers"
REPBERT = ("table1", "table2", "table3", "table4", "figure1a", "figure1b", "figure2", "mismatch")
BERT_DMN = ("table1", "table2", "table3", "figure3")
UNPRINTED = (
    "bert-dmn/figure3",
    *(f"repbert/{name}" for name in ("figure1a", "figure1b", "figure2", "mismatch")),
)
MONOBERT = ("monobert/table1", "monobert/figure1")
FILES = (
    *(f"bert-dmn/{name}" for name in BERT_DMN),
    *MONOBERT,
    "piaf/table5",
    *(f"repbert/{name}" for name in REPBERT),
)


def read(name: str, *, small: bool = False) -> Experiment:
    return read_experiment(PAPERS / f"{name}.yaml", small=small)


def training(experiment: Experiment, model: str) -> RerankerTraining | BiEncoderTraining:
    kind = experiment.trained[model].train
    settings = merge(experiment.training if kind == "reranker" else {}, experiment.trained[model].settings)
    start = settings["model"]["start"]
    settings["model"]["start"] = start if isinstance(start, str) else start[0]
    settings_class = {"reranker": RerankerTraining, "bi-encoder": BiEncoderTraining}[kind]
    return settings_class.model_validate(merge(settings, {"data": {"collection": "the data"}}))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_files_are_read_and_have_data_and_values_of_the_paper(name, small):
    experiment = read(name, small=small)
    assert experiment.source
    assert small or any(spec.paper for spec in experiment.data.values())
    for data in experiment.data:
        alone = experiment.on(data)
        assert all(training(alone, model) for model in alone.trained)
        assert bool(alone.published.get(data, {})) == (name not in UNPRINTED)


def test_on_merges_what_differs_and_keeps_the_printed_values():
    experiment = read("bert-dmn/table2")
    assert experiment.on("antique").systems["candidates"] == "judged"
    assert experiment.on("antique").published["antique"]["BERT"] == {"AP": 0.697, "RR": 0.849}
    assert experiment.on("insuranceqa-v2").systems == experiment.systems
    deep_learning = experiment.on("msmarco")
    assert list(deep_learning.data) == ["msmarco"]
    assert training(deep_learning, "BERT").optimisation.warm_up == 10_000
    assert training(deep_learning, "K-NRM").optimisation.warm_up == 0
    guided = read("monobert/table1").on("msmarco-slice")
    assert guided.systems["candidates"] == "pool(top20)"
    assert guided.published["msmarco-slice"]["BERT base"] == {"RR@10": 0.347}


def test_a_wrong_key_that_differs_is_refused():
    record = read("bert-dmn/table2").record()
    record["data"]["antique"]["differs"] = {"sistems": {}}
    with pytest.raises(
        ValueError, match="data 'antique': differs: known keys, not 'sistems'; did you mean 'systems'"
    ):
        Experiment.model_validate(record)


@pytest.mark.parametrize(
    ("systems", "says"),
    [
        ({"A": "bm25 % 10", "B": "C % 5", "C": "A % 2"}, "system 'B' names 'C', which is defined below it"),
        ({"A": "bm25 % 10", "B": "minmax(B)"}, "system 'B' names itself: a system is made of those above"),
        ({"A": "bm25 % 10", "B": "linear(A, A)"}, r"system 'B': .linear.A, A..: unknown function 'linear'"),
    ],
)
def test_a_system_is_made_of_those_above_it(systems, says):
    record = read("demo").record() | {"systems": systems, "analyses": [{"kind": "recall", "depths": [1]}]}
    with pytest.raises(ValueError, match=says):
        Experiment.model_validate(record)
    functions = {"A": "bm25 % 10", "bm25": "bm25 % 5"}  # no system above has this name: it is the function
    assert Experiment.model_validate(record | {"systems": functions}).systems == functions


def test_the_functions_of_experiments_are_those_that_are_read():
    functions = ExperimentFunctions(None, None, "test").all()
    assert set(EXPERIMENT_FUNCTIONS) == functions.keys() - FUNCTIONS.keys()


@pytest.mark.parametrize("name", REPBERT)
def test_repbert_learns_from_train_triples_and_in_the_small_copy_from_negatives_of_bm25(name):
    experiment = read(f"repbert/{name}").on("msmarco")
    assert experiment.systems["RepBERT"] == "dense(RepBERT) % 1000"
    wanted = training(experiment, "RepBERT")
    assert wanted.data.triples.file == "qidpidtriples.train.full.2.tsv.gz"
    optimisation = wanted.optimisation
    assert (optimisation.batch, optimisation.accumulation, optimisation.steps) == (26, 2, 350_000)
    assert optimisation.batch * optimisation.accumulation * optimisation.steps == 18_200_000
    assert (optimisation.learning_rate, optimisation.betas, optimisation.warm_up) == (
        3e-6,
        (0.9, 0.999),
        10_000,
    )
    assert (wanted.model.query_length, wanted.model.document_length, wanted.model.dropout) == (20, 256, 0.1)
    assert (wanted.loss.objective, wanted.loss.margin, wanted.dev) == ("margin", 1.0, None)
    copy = read(f"repbert/{name}", small=True).on("msmarco-slice")
    small = training(copy, "RepBERT")
    assert small.data.triples is None
    assert (small.data.negatives.run, small.data.negatives.depth) == ("bm25(k1=0.82, b=0.68) % 20", 20)
    assert (small.data.negatives.per_positive, copy.seeds) == (1, (0, 1, 2))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("data", ["msmarco", "msmarco-slice"])
def test_all_files_of_a_paper_have_the_same_models(data, small):
    repbert = [read(f"repbert/{name}", small=small).on(data) for name in REPBERT]
    trained = {training(experiment, "RepBERT").model_dump_json() for experiment in repbert}
    assert len(trained) == 1
    both = [*repbert, *(read(name, small=small).on(data) for name in MONOBERT)]
    assert len({training(experiment, "monoBERT").model_dump_json() for experiment in both}) == 1


@pytest.mark.parametrize("name", [*MONOBERT, *(f"repbert/{name}" for name in REPBERT)])
def test_small_copies_are_run_on_the_first_data_that_is_here(name):
    assert not any(spec.paper for spec in read(name, small=True).data.values())
    assert next(iter(read(name, small=True).data)) == "msmarco-slice"


@pytest.mark.parametrize("small", [False, True])
def test_the_re_rankers_of_the_mismatch_differ_in_their_negatives_alone(small):
    experiment = read("repbert/mismatch", small=small).on("msmarco-slice" if small else "msmarco")
    first, second = (training(experiment, name) for name in ("monoBERT", "monoBERT-RepBERT"))
    assert second.data.negatives.run == "RepBERT"
    assert (second.model, second.loss, second.optimisation) == (first.model, first.loss, first.optimisation)
    assert (second.precision, second.data.pairs) == (first.precision, first.data.pairs)
    assert [
        kind for kind in ("reranking", "consistency") for one in experiment.analyses if one.kind == kind
    ] == [
        "reranking",
        "reranking",
        "consistency",
        "consistency",
    ]


def test_re_ranking_by_depth_is_by_a_trained_monobert():
    for name in ("table2", "figure1b"):
        (analysis,) = read(f"repbert/{name}").analyses
        assert analysis.rerankers == {"BERT Large": "rerank(monoBERT)"}


def test_recall_at_2000_is_without_truncation():
    cut, whole = read("repbert/table4").analyses
    assert (cut.keep, whole.keep, whole.measure) == (None, 2000, "R@2000")
    assert whole.published == {"msmarco": {"RepBERT": {"docTTTTTquery": 0.980}}}


def test_bert_dmn_is_trained_as_the_paper_says():
    experiment = read("bert-dmn/table2")
    wanted = training(experiment, "BERT-DMN")
    assert (wanted.loss.objective, wanted.loss.margin, wanted.loss.of) == ("margin", 0.2, "probability")
    optimisation = wanted.optimisation
    assert (optimisation.optimiser, optimisation.learning_rate) == ("adamw", 3e-5)
    assert (optimisation.batch, optimisation.warm_up) == (32, 1000)
    assert wanted.model.head == {"hidden": 256, "episodes": 4, "dropout": 0.1}
    assert (wanted.model.start, wanted.model.max_length) == ("bert-base-uncased", 512)
    assert wanted.model.max_query == 256  # inputs alone are cut
    knrm = training(experiment, "K-NRM").optimisation
    assert (knrm.optimiser, knrm.learning_rate, knrm.eps, knrm.batch) == ("adam", 1e-3, 1e-5, 16)
    lstm = training(experiment, "QA-LSTM")
    assert lstm.model.head == {"hidden": 256, "dropout": 0.5}
    assert (lstm.optimisation.optimiser, lstm.optimisation.learning_rate) == ("adamw", 3e-5)
    assert (lstm.optimisation.batch, lstm.loss.of) == (32, "logit")
    assert training(experiment, "DMN").model.head == wanted.model.head
    assert experiment.systems["candidates"] == "relevant(pool(500))"


def test_bert_dmn_learns_from_lower_grades_and_counts_as_the_track_does():
    experiment = read("bert-dmn/table2")
    antique = training(experiment.on("antique"), "BERT-DMN")
    assert (antique.data.negatives.judged, antique.data.negatives.pool) == (True, None)
    assert (antique.dev.split, antique.dev.queries) == ("train", 20)  # of 2,426, so that 2,406 are left
    (quality,) = experiment.on("msmarco").analyses
    assert quality.measures == ("RR(rel=2)", "AP(rel=2)", "RR", "AP")


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("data", ["insuranceqa-v2", "msmarco"])
def test_the_models_of_figure_3_are_those_of_table_2(data, small):
    table, figure = (read(f"bert-dmn/{name}", small=small).on(data) for name in ("table2", "figure3"))
    assert figure.systems.items() <= table.systems.items()
    assert figure.queries == table.queries
    assert set(figure.seeds) <= set(table.seeds)
    for model in ("BERT", "BERT-DMN"):
        assert training(figure, model) == training(table, model)
    assert figure.analyses[0] == table.analyses[0]  # which shows the same values


def test_table_3_trains_the_models_of_table_2():
    table, throughput = read("bert-dmn/table2"), read("bert-dmn/table3")
    for data in throughput.data:
        for model in throughput.trained:
            ours, theirs = (training(spec.on(data), model) for spec in (throughput, table))
            assert (ours.model, ours.loss, ours.data) == (theirs.model, theirs.loss, theirs.data)


def test_small_bert_dmn_is_the_copy_whose_figures_stand_in_the_results():
    experiment = read("bert-dmn/table2", small=True).on("insuranceqa-v2")
    assert (experiment.queries, experiment.seeds) == (100, (0, 1, 2))
    assert experiment.systems["candidates"] == "relevant(pool(500) % 100)"
    schedules = {
        name: (wanted.optimisation.epochs, wanted.optimisation.learning_rate, wanted.optimisation.warm_up)
        for name in experiment.trained
        for wanted in [training(experiment, name)]
    }
    assert schedules == {
        "QA-LSTM": (2, 1e-3, 0.1),
        "K-NRM": (3, 1e-3, 0),
        "DMN": (3, 1e-3, 0.1),
        "BERT-DMN-lite": (5, 1e-3, 0.1),
        "BERT-lite": (30, 1e-3, 0.1),
        "BERT": (2, 3e-5, 0.1),
        "BERT-DMN": (2, 3e-5, 0.1),
    }
    wanted = training(experiment, "BERT")
    assert (wanted.model.max_query, wanted.model.max_length, wanted.precision) == (32, 128, "bfloat16")
    assert (wanted.data.queries, wanted.data.seed, wanted.data.negatives.pool) == (800, 0, "100")
    dev = wanted.dev
    assert (dev.split, dev.run, dev.queries, dev.measure) == ("valid", "candidates", 20, "AP")
    assert (dev.every, dev.patience) == (42, 10_000)


@pytest.mark.parametrize("data", ["insuranceqa-v2", "antique", "msmarco"])
def test_small_bert_dmn_says_of_what_its_figures_are(data):
    whole, small = (read("bert-dmn/table2", small=is_small).on(data) for is_small in (False, True))
    about = small.data[data].about
    assert about != whole.data[data].about
    assert f"learned from {training(small, 'BERT').data.queries} of" in about
    assert {"msmarco": "the first 100 of"}.get(data, f"{small.queries} of the") in about


def test_monobert_is_trained_as_the_text_says_and_its_small_copy_on_the_slice():
    experiment = read("monobert/table1").on("msmarco")
    large, base = (training(experiment, name) for name in ("monoBERT", "monoBERT-base"))
    assert (large.model.start, base.model.start) == ("bert-large-uncased", "bert-base-uncased")
    assert large.model_copy(update={"model": base.model}) == base
    assert large == RerankerTraining.model_validate(
        {
            "data": {"collection": "the data", "triples": {"file": "qidpidtriples.train.full.2.tsv.gz"}},
            "model": {"kind": "monobert"},
        }
    )
    assert (large.optimisation.steps * large.optimisation.batch * 2, large.dev) == (12_800_000, None)
    assert experiment.systems["candidates"] == "pool(top1000)"
    copy = read("monobert/table1", small=True).on("msmarco-slice")
    assert copy.systems["candidates"] == "pool(top20)"
    wanted = training(copy, "monoBERT")
    negatives = wanted.data.negatives
    assert (negatives.run, negatives.per_positive) == ("bm25(k1=0.82, b=0.68) % 20", 1)
    assert (wanted.data.pairs, wanted.optimisation.epochs, wanted.data.triples) == (8192, 1, None)


def test_monoberts_table_has_its_own_values_and_each_row_its_first_stage():
    experiment = read("monobert/table1")
    marco, car = experiment.published["msmarco"], experiment.published["trec-car"]
    assert marco["BM25 (Lucene, no tuning)"] == {"RR@10": 0.167, "RR@10 eval": 0.165}
    assert marco["IRNet"] == {"RR@10": 0.278, "RR@10 eval": 0.281}
    assert marco["BERT large"] == {"RR@10": 0.365, "RR@10 eval": 0.358}
    assert car["BM25 (Anserini, tuned)"] == {"AP": 0.153}
    assert car["BERT large"] == {"AP": 0.335}
    assert "the values are from other copies" in experiment.source
    assert not any("Anserini" in name and "0.184" in str(row) for name, row in marco.items())


def test_monobert_learns_from_natural_labels_of_four_folds_of_trec_car():
    experiment = read("monobert/table1").on("trec-car")
    wanted = training(experiment, "monoBERT")
    assert wanted.data.split.split("+") == [f"train.fold{fold}" for fold in range(4)]
    assert (wanted.data.listed.depth, wanted.data.negatives, wanted.data.triples) == (10, None, None)
    optimisation = wanted.optimisation
    assert optimisation.steps * optimisation.batch == 12_800_000
    assert (wanted.dev.split, wanted.dev.patience) == ("train.fold4", optimisation.steps)
    assert wanted.model.start == "bert-large-half-wikipedia"
    assert [analysis.measures for analysis in experiment.analyses] == [("AP",)]


def test_the_size_curve_counts_pairs_and_has_the_two_points_of_the_text():
    experiment = read("monobert/figure1")
    (analysis,) = experiment.analyses
    assert (analysis.kind, analysis.pairs[2], analysis.pairs[-1]) == ("sizes", 100_000, 12_800_000)
    irnet = read("monobert/table1").published["msmarco"]["IRNet"]["RR@10"]
    assert experiment.published["msmarco"]["BERT large"] == {
        "100000": round(irnet + 0.014, 3),
        "12800000": 0.365,
    }
    changed = merge(experiment.on("msmarco").trained["monoBERT"].settings, analysis.changes)
    settings = merge(changed, {"data": {"collection": "x", "pairs": 12_800_000}})
    optimisation = RerankerTraining.model_validate(settings).optimisation
    updates = 12_800_000 // (2 * optimisation.batch)
    assert (updates, updates * optimisation.warm_up) == (400_000, 10_000)
    small = read("monobert/figure1", small=True)
    assert small.analyses[0].pairs[-1] == small.trained["monoBERT"].settings["data"]["pairs"]


def test_published_values_are_those_of_the_papers():
    bert_dmn = read("bert-dmn/table2").published
    assert bert_dmn["insuranceqa-v2"]["BERT-DMN"] == {"AP": 0.406, "RR": 0.484}
    assert bert_dmn["msmarco"]["BERT-DMN"] == {"AP(rel=2)": 0.408, "RR(rel=2)": 0.889}
    piaf = read("piaf/table5").published["squadfr-fquad-piaf"]
    assert piaf["BM25 + ranker"] == {"Success@10": 0.85, "Success@1": 0.67, "AP": 0.74}
    first = read("repbert/table1").published["msmarco"]["RepBERT"]
    assert first == {"RR@10": 0.304, "RR@10 test": 0.294, "R@1000": 0.943, "ms/query": 80}
    second = read("repbert/table2").published["msmarco"]["docTTTTTquery"]
    assert second == {"5": 0.314, "10": 0.351, "50": 0.375, "500": 0.380, "1000": 0.380}


def test_printed_diagonals_agree_between_tables():
    printed = {name: read(f"repbert/{name}").published["msmarco"] for name in ("table1", "table3", "table4")}
    for row in ("DeepCT", "docTTTTTquery", "RepBERT"):
        assert printed["table3"][row][row] == printed["table1"][row]["RR@10"]
    for row in ("docTTTTTquery", "RepBERT"):
        assert printed["table4"][row][row] == printed["table1"][row]["R@1000"]


def test_packaged_trainings_are_settings():
    folder = EXPERIMENTS / "trainings"
    records = {
        str(path.relative_to(folder)): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.yaml"))
    }
    grid = TrainingPlan.model_validate(records.pop("piaf/grid.yaml"))
    reader = ReaderTraining.model_validate(records.pop("piaf/answers.yaml"))
    assert (reader.model.language, reader.dev.measure) == ("fr", "F1(fr)")
    assert len(grid.combinations) == 108
    authors = RerankerTraining.model_validate(records.pop("bert-dmn/authors.yaml"))
    assert (authors.model.head["gate"], authors.optimisation.schedule) == ("authors", "constant")
    assert (authors.dev.measure, authors.dev.every, authors.dev.patience) == ("AP", "1 epochs", "3 epochs")
    deep = TrainingPlan.model_validate(records.pop("best/trec-dl-2019.yaml"))
    assert (deep.loss.objective, deep.loss.margin, deep.loss.of) == ("margin", 1.0, "logit")
    assert (deep.data.negatives.only, deep.data.negatives.per_positive) == ("unjudged", 1)
    assert (deep.data.segments.leading, deep.data.segments.iterations, deep.dev.measure) == (4, 4, "RR")
    robust = TrainingPlan.model_validate(records.pop("best/robust04.yaml"))
    assert (len(robust.variants), len({variant.repetition for variant in robust.variants})) == (25, 5)
    assert (robust.loss.objective, robust.data.negatives.per_positive) == ("pointwise", 10)
    repbert = {name: BiEncoderTraining.model_validate(record) for name, record in records.items()}
    triples = {"file": "msmarco/qidpidtriples.train.full.2.tsv.gz"}
    assert repbert["repbert/msmarco.yaml"] == BiEncoderTraining.model_validate(
        {"data": {"collection": "msmarco", "triples": triples}, "model": {"document_segment": 1}}
    )


@pytest.mark.parametrize(
    ("training", "data"), [("trec-dl-2019", "trec-dl-2019"), ("robust04", "robust04-title")]
)
def test_the_trainings_of_best_are_those_of_its_experiment(training, data):
    """The settings of both, but for where the lists and the test are: there a pipeline, here a file."""
    spec = read_experiment(PAPERS / "best" / "table1.yaml").on(data)
    asked = merge(spec.training, spec.models["BeST"].settings)
    asked["data"] = {**asked["data"], "collection": "here"}
    path = EXPERIMENTS / "trainings" / "best" / f"{training}.yaml"
    record = yaml.safe_load(path.read_text(encoding="utf-8"))
    repeated = record.pop("repetitions", None)
    assert repeated == (len(spec.seeds) if len(spec.seeds) > 1 else None)
    assert _settings_alone(record) == _settings_alone({**asked, "test": record["test"]})


def _settings_alone(record):
    told = RerankerTraining.model_validate(record).model_dump(mode="json")
    told.pop("test")
    told["data"].pop("collection")
    for lists in (told["data"]["negatives"], told["dev"]):
        lists |= {"run": None, "pool": None}
    if told["loss"]["objective"] != "margin":
        told["loss"].pop("of")  # nothing but a margin is of something
    return told
