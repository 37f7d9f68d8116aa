"""The experiments of the Piaf report: settings as its text has them, printed values, what all files share."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import telerank
from telerank.experiments.packaged import packaged_names
from telerank.experiments.schema import Experiment, merge, read_experiment
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan

FOLDER = Path(telerank.__file__).parent / "experiments"
RANKING_SET = ("ranking-set", "table3", "table4", "figure7", "figure8", "figure9")
TRAINED = ("table5", "grid", "figure11", "figure12", "figure14", "figure15")
FILES = (*RANKING_SET, *TRAINED, "table1", "table2", "bi-encoders")
ANSWERS = ("answers", "answers-dila", "answers-end-to-end", "no-answers")
OTHER_DATA = ("table6", *ANSWERS)
SMALL = [False, True]


def read(name: str, *, small: bool = False) -> Experiment:
    return read_experiment(FOLDER / "papers" / "piaf" / f"{name}.yaml", small=small)


def training(experiment: Experiment, model: str) -> RerankerTraining:
    settings = merge(experiment.training, experiment.trained[model].settings)
    settings["model"]["start"] = settings["model"]["start"][0]
    return RerankerTraining.model_validate(merge(settings, {"data": {"collection": "the data"}}))


def test_every_table_and_figure_has_a_file_and_no_other():
    assert {name.removeprefix("piaf/") for name in packaged_names() if name.startswith("piaf/")} == {
        *FILES,
        *OTHER_DATA,
    }


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("name", FILES)
def test_files_are_read_on_all_their_data(name, small):
    experiment = read(name, small=small)
    assert experiment.source
    for data in experiment.data:
        alone = experiment.on(data)
        assert read_back(alone) == alone
    assert "piaf-fquad" in experiment.data
    assert experiment.data["squadfr-fquad-piaf"].made_of == ("squad-fr", "fquad", "piaf")


def read_back(experiment: Experiment) -> Experiment:
    return Experiment.model_validate(yaml.safe_load(experiment.yaml()))


@pytest.mark.parametrize("small", SMALL)
def test_a_model_is_the_same_training_in_all_files(small):
    for model in read("table5").trained:
        settings = {training(read(name, small=small), model).model_dump_json() for name in TRAINED}
        assert len(settings) == 1


@pytest.mark.parametrize("small", SMALL)
def test_only_the_sparse_scores_are_scaled_and_both_weights_are_free(small):
    systems = read("table5", small=small).systems
    for name, model in (("BM25 + classifier", "MonoBERT classifier"), ("BM25 + ranker", "MonoBERT ranker")):
        assert systems[name] == f"tuned(minmax(BM25), prob('{model}'), by=AP, folds=5, grid=square)"


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("name", ["table5", "table1", "grid", "bi-encoders"])
def test_recall_is_the_share_of_questions_with_a_relevant_document(name, small):
    measures = [measure for one in read(name, small=small).analyses for measure in one.measures]
    assert any(measure.startswith("Success@") for measure in measures)
    assert not any(measure.startswith("R@") for measure in measures)


def test_frozen_heads_stop_by_the_validation_loss():
    experiment = read("table5")
    classifier, ranker = (training(experiment, f"MonoBERT {name}") for name in ("classifier", "ranker"))
    for frozen in (classifier, ranker):
        assert frozen.model.frozen
        assert frozen.model.head == {"hidden": [1024, 1024, 1024], "dropout": 0.3}
        optimisation = frozen.optimisation
        assert (optimisation.optimiser, optimisation.learning_rate) == ("adam", 5e-4)
        assert (optimisation.schedule, optimisation.warm_up) == ("constant", 0)
        assert optimisation.max_gradient_norm is None
        assert (frozen.dev.measure, frozen.dev.every, frozen.dev.patience) == (
            "loss",
            "1 epochs",
            "10 epochs",
        )
        assert (frozen.dev.split, frozen.dev.pool, frozen.data.negatives.per_positive) == (
            "dev",
            "negatives",
            10,
        )
    assert (classifier.loss.objective, classifier.loss.class_weights) == ("pointwise", True)


def test_the_loss_of_the_rankers_has_no_margin_as_printed_and_one_in_a_second_model():
    experiment = read("table5")
    for name in ("MonoBERT ranker", "MonoBERT ranker, fine-tuned"):
        loss, other = (training(experiment, model).loss for model in (name, f"{name}, margin"))
        assert (loss.objective, loss.margin, loss.of) == ("margin", 0.0, "probability")
        assert (other.objective, other.margin > 0) == ("margin", True)


def test_the_fine_tuned_ranker_learns_from_twelve_items_and_no_question_is_cut():
    tuned = training(read("table5"), "MonoBERT ranker, fine-tuned")
    assert (tuned.optimisation.batch, tuned.data.negatives.per_group) == (12, 1)  # 24 inputs
    assert (tuned.optimisation.epochs, tuned.optimisation.learning_rate) == (3, 1e-5)
    assert (tuned.model.max_query, tuned.model.max_length) == (None, 512)
    assert len(tuned.model.head["hidden"]) == 1
    assert (tuned.model.head["dropout"], tuned.model.frozen) == (0.3, False)


@pytest.mark.parametrize("small", SMALL)
def test_the_small_copy_reads_and_counts_as_the_report(small):
    tuned = training(read("table5", small=small), "MonoBERT ranker, fine-tuned")
    assert (tuned.optimisation.batch, tuned.data.negatives.per_group) == (12, 1)
    assert (tuned.model.max_query, tuned.model.max_length, tuned.dev.measure) == (None, 512, "loss")
    assert "e5-small" in read("table5", small=small).training["model"]["start"]


@pytest.mark.parametrize("model", ["Sentence-BERT", "DPR"])
def test_the_bi_encoders_cut_no_question_and_their_small_copy_says_what_it_cuts(model):
    lengths = read("bi-encoders").trained[model].settings["model"]
    longest = read("ranking-set").published["squadfr-fquad-piaf"]["tokens of the longest question"]["count"]
    assert lengths["query_length"] >= longest + 2 + 3  # special tokens, and E5's prompt
    assert lengths["document_length"] == 512
    small = read("bi-encoders", small=True)
    cut = small.trained[model].settings["model"]["document_length"]
    assert f"read {cut} tokens" in small.data["piaf-fquad"].about


def test_figures_of_lengths_have_the_numbers_of_the_text():
    counts = read("ranking-set").published["squadfr-fquad-piaf"]
    for name, what, most in (("figure7", "question", 30), ("figure8", "document", 400)):
        shortest, longest = (
            counts[f"tokens of the {end} {what}"]["count"] for end in ("shortest", "longest")
        )
        about = read(name).about
        assert f"from {shortest:g} to {longest:g} tokens" in about
        assert f"most {what}s have less than {most}" in about


def test_the_small_copy_says_how_the_fine_tuned_ranker_differs():
    small = read("table5", small=True)
    optimisation = training(small, "MonoBERT ranker, fine-tuned").optimisation
    about = small.data["piaf-fquad"].about
    for part in (
        "200 updates",
        "three negatives",
        f"{optimisation.learning_rate:.0e}".replace("-0", "-"),
        "warm-up",
    ):
        assert part in about


def test_the_grid_has_the_108_heads_of_the_report():
    (analysis,) = read("grid").analyses
    plan = TrainingPlan.model_validate(
        yaml.safe_load((FOLDER / "trainings" / "piaf" / "grid.yaml").read_text(encoding="utf-8"))
    )
    assert {name: list(values) for name, values in analysis.settings.items()} == {
        name: list(values) for name, values in plan.grid.items()
    }
    assert len(plan.combinations) == 108
    assert (plan.dev.measure, plan.dev.patience, plan.model.max_query) == ("loss", "10 epochs", None)
    (small,) = read("grid", small=True).analyses
    assert all(
        {*map(str, values)} <= {*map(str, analysis.settings[name])} for name, values in small.settings.items()
    )


def test_tables_1_and_2_are_the_best_of_each_grid_with_and_without_preprocessing():
    for name, measure in (("table1", "Success"), ("table2", "AP")):
        experiment = read(name)
        (analysis,) = experiment.analyses
        assert (analysis.depth_measures, analysis.every_analyzer, analysis.folds) == ((measure,), True, None)
        assert [spec.analyzer for spec in experiment.data.values()] == ["french"] * 3  # besides "none"
        assert list(experiment.published) == ["dila"]
        assert experiment.published["dila"]["BM25"][f"{measure}@1"] == 0.71


def test_printed_counts_agree_with_each_other():
    counts = read("ranking-set").published["squadfr-fquad-piaf"]
    parts = [counts[part]["unique questions"] for part in ("train", "dev", "test")]
    assert sum(parts) == counts["unique questions"]["count"] == 125_440
    assert [part / 125_440 for part in parts] == [0.8, 0.1, 0.1]
    pairs = counts["question-document pairs"]["count"]
    bins = read("table4").published["squadfr-fquad-piaf"]
    assert sum(row["pairs"] for row in bins.values()) == pairs == 1_375_690
    assert bins["+512"]["pairs"] == 2262
    assert sum(row["%"] for row in read("table3").published["squadfr-fquad-piaf"].values()) == pytest.approx(
        100
    )


def test_each_printed_value_stands_in_one_file():
    cells = [
        (data, row, column)
        for name in FILES
        for data, rows in read(name).published.items()
        for row, columns in rows.items()
        for column in columns
    ]
    assert len(set(cells)) == len(cells)
    assert not any(read(name).published for name in FILES if name.startswith("figure"))


@pytest.mark.parametrize("small", SMALL)
def test_table_6_has_the_fine_tuned_ranker_of_table_5(small):
    name = "MonoBERT ranker, fine-tuned"
    six = read("table6", small=small)
    data = six.trained[name].settings["data"]["collection"]
    assert data in six.sets
    five = read("table5", small=small)
    assert training(six, name) == training(five.on(data), name)
    assert six.sets[data].made_of == five.data[data].made_of


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("name", ANSWERS)
def test_readers_are_trained_and_measured_on_the_same_parts_of_articles(name, small):
    from telerank.training.reader.config import QuestionSource, ReaderTraining

    experiment = read(name, small=small)
    shares = {"test": 0.2, "dev": 0.1, "seed": 3}
    for data in experiment.data.values():
        assert data.made_as != "article-parts" or data.recipe == shares
    for model in experiment.trained.values():
        if model.train == "reader":
            settings = {**model.settings, "model": {**model.settings["model"], "start": "e5-small"}}
            training = ReaderTraining.model_validate(settings)
            assert training.articles.model_dump() == shares
            assert {source.part for source in training.data.sets} == {"train"}
            assert {source.part for source in training.dev.sets} == {"dev"}
    for analysis in experiment.analyses:
        if analysis.kind == "answers":
            assert analysis.articles == shares
            assert {QuestionSource.model_validate(own).part for own in analysis.sets.values()} == {"test"}


@pytest.mark.parametrize("small", SMALL)
def test_the_reader_of_all_answers_is_the_same_training(small):
    readers = [read(name, small=small).trained["all sets"] for name in ANSWERS]
    assert all(reader == readers[0] for reader in readers)


def test_the_system_of_answers_has_the_ranker_of_table_5_and_other_questions():
    """Table 5's questions are drawn from all articles: among them are those that measure end to end."""
    system = read("answers-end-to-end")
    own = training(system, "re-ranker")
    five = training(read("table5"), "MonoBERT ranker, fine-tuned")
    assert own.model == five.model.model_copy(update={"start": own.model.start})
    assert (own.loss, own.optimisation) == (five.loss, five.optimisation)
    assert (own.data.queries, own.data.negatives.per_group) == (five.data.queries, 1)
    assert own.data.negatives.per_positive == five.data.negatives.per_positive
    assert (own.dev.measure, own.dev.every, own.dev.queries) == ("loss", five.dev.every, five.dev.queries)
    assert own.precision == five.precision
    assert system.data["piaf-fquad"].made_as == "article-parts"


def test_the_small_system_of_answers_has_its_head_on_bert_tiny_and_other_questions():
    """Trained from multilingual-e5-small it would take longer than the reader."""
    own, whole = (training(read("answers-end-to-end", small=small), "re-ranker") for small in (True, False))
    assert own.model.start == "bert-tiny-splade"
    assert own.model.head == whole.model.head
    assert (own.data.split, own.dev.split) == (whole.data.split, whole.dev.split) == ("train", "dev")


def test_dila_is_ranked_by_segments_with_the_re_ranker_of_answers_end_to_end():
    dila, system = read("answers-dila"), read("answers-end-to-end")
    own, other = (experiment.trained["re-ranker"] for experiment in (dila, system))
    assert own.settings["data"].pop("collection") == "piaf-fquad"
    assert own == other
    learned = dila.learn_from("piaf-fquad").data["piaf-fquad"]
    given = system.data["piaf-fquad"]
    for name in ("made_of", "made_as", "recipe", "split", "analyzer"):
        assert getattr(learned, name) == getattr(given, name)


def test_the_packaged_reader_learns_from_the_piaf_that_is_installed():
    from telerank.training.reader.config import ReaderTraining
    from telerank.training.settings import read_settings

    training = read_settings(FOLDER / "trainings" / "piaf" / "answers.yaml", ReaderTraining)
    assert [source.collection for source in training.data.sets] == ["piaf"]
    assert training.model.start == "e5-small"
