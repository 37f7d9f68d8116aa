"""The packaged experiments of the papers: that they are read, what `small` makes of them, what was printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import telerank
from telerank.experiments.schema import Experiment, merge, read_experiment
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.plan import TrainingPlan

EXPERIMENTS = Path(telerank.__file__).parent / "experiments"
PAPERS = EXPERIMENTS / "papers"
REPBERT = ("table1", "table2", "table3", "table4", "figure1a", "figure2")
FILES = ("bert-dmn/table2", "monobert/table1", "piaf/table5", *(f"repbert/{name}" for name in REPBERT))


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
        assert alone.published.get(data, {}) or name == "repbert/figure2"


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
    assert guided.systems["BM25"] == "pool(top20)"
    assert guided.published["msmarco-slice"]["monoBERT"] == {"RR@10": 0.365}


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
    ],
)
def test_a_system_is_made_of_those_above_it(systems, says):
    record = read("demo").record() | {"systems": systems, "analyses": [{"kind": "recall", "depths": [1]}]}
    with pytest.raises(ValueError, match=says):
        Experiment.model_validate(record)
    functions = {"A": "bm25 % 10", "bm25": "bm25 % 5"}  # no system above has this name: it is the function
    assert Experiment.model_validate(record | {"systems": functions}).systems == functions


@pytest.mark.parametrize("name", REPBERT)
def test_repbert_is_trained_as_the_paper_says_and_not_in_the_small_copy(name):
    experiment = read(f"repbert/{name}")
    assert experiment.systems["RepBERT"] == "dense(RepBERT) % 1000"
    assert training(experiment, "RepBERT") == BiEncoderTraining.model_validate(
        {"data": {"collection": "the data"}}
    )
    assert not read(f"repbert/{name}", small=True).trained


def test_bert_dmn_is_trained_as_the_paper_says():
    experiment = read("bert-dmn/table2")
    wanted = training(experiment, "BERT-DMN")
    assert (wanted.loss.objective, wanted.loss.margin, wanted.loss.of) == ("margin", 0.2, "probability")
    optimisation = wanted.optimisation
    assert (optimisation.optimiser, optimisation.learning_rate) == ("adamw", 3e-5)
    assert (optimisation.batch, optimisation.warm_up) == (32, 1000)
    assert wanted.model.head == {"hidden": 256, "episodes": 4, "dropout": 0.1}
    assert (wanted.model.start, wanted.model.max_length) == ("bert-base-uncased", 512)
    knrm = training(experiment, "K-NRM").optimisation
    assert (knrm.optimiser, knrm.learning_rate, knrm.eps, knrm.batch) == ("adam", 1e-3, 1e-5, 16)
    assert experiment.systems["candidates"] == "relevant(pool(500))"


def test_small_bert_dmn_is_the_copy_whose_figures_stand_in_the_results():
    experiment = read("bert-dmn/table2", small=True).on("insuranceqa-v2")
    assert (experiment.queries, experiment.seeds) == (150, (0, 1, 2))
    assert experiment.systems["candidates"] == "relevant(pool(500) % 100)"
    schedules = {
        name: (wanted.optimisation.epochs, wanted.optimisation.learning_rate, wanted.optimisation.warm_up)
        for name in experiment.trained
        for wanted in [training(experiment, name)]
    }
    assert schedules == {
        "QA-LSTM": (3, 1e-3, 0.1),
        "K-NRM": (3, 1e-3, 0),
        "DMN": (3, 1e-3, 0.1),
        "BERT-DMN-lite": (5, 1e-3, 0.1),
        "BERT-lite": (30, 1e-3, 0.1),
        "BERT": (2, 3e-5, 0.1),
        "BERT-DMN": (2, 3e-5, 0.1),
    }
    wanted = training(experiment, "BERT")
    assert (wanted.model.max_query, wanted.model.max_length, wanted.precision) == (32, 128, "bfloat16")
    assert (wanted.data.queries, wanted.data.seed, wanted.data.negatives.pool) == (1500, 0, "100")
    dev = wanted.dev
    assert (dev.split, dev.run, dev.queries, dev.measure) == ("valid", "candidates", 30, "AP")
    assert (dev.every, dev.patience) == (77, 10_000)


def test_monobert_has_the_defaults_of_its_kind_and_its_small_copy_the_slice():
    paper = training(read("monobert/table1"), "monoBERT")
    assert paper == RerankerTraining.model_validate(
        {
            "data": {"collection": "the data", "triples": {"file": "qidpidtriples.train.full.2.tsv.gz"}},
            "model": {"kind": "monobert"},
        }
    )
    copy = read("monobert/table1", small=True)
    assert list(copy.data) == ["msmarco-slice"]
    copy = copy.on("msmarco-slice")
    assert dict(copy.systems) == {
        "BM25": "pool(top20)",
        "monoBERT": "BM25 % 20 >> rerank(monoBERT)",
        "BM25 over the slice": "bm25(k1=0.82, b=0.68) % 20",
    }
    wanted = training(copy, "monoBERT")
    assert wanted.data.triples is None
    negatives = wanted.data.negatives
    assert (negatives.run, negatives.depth, negatives.per_positive) == (
        copy.systems["BM25 over the slice"],
        20,
        3,
    )
    assert (wanted.optimisation.epochs, wanted.optimisation.batch, wanted.optimisation.tokens) == (1, 8, 4096)
    assert (wanted.model.max_query, wanted.model.max_length) == (64, 192)


def test_piaf_sums_probabilities_and_its_small_copy_scaled_scores():
    report, copy = read("piaf/table5"), read("piaf/table5", small=True)
    fused = "tuned(minmax(BM25), {}('MonoBERT ranker'), by=AP, folds=5, grid={})"
    assert report.systems["BM25 + ranker"] == fused.format("prob", "square")
    assert copy.systems["BM25 + ranker"] == fused.format("minmax", "simplex")
    tuned, wanted = (training(each, "MonoBERT ranker, fine-tuned") for each in (report, copy))
    assert (tuned.optimisation.epochs, tuned.optimisation.learning_rate) == (3, 1e-5)
    assert (wanted.optimisation.epochs, wanted.optimisation.learning_rate) == (1, 3e-5)
    assert tuned.optimisation.batch == wanted.optimisation.batch == 12
    assert (tuned.data.negatives.per_positive, wanted.data.negatives.per_positive) == (10, 3)
    frozen = training(copy, "MonoBERT classifier")
    assert (frozen.model.frozen, frozen.optimisation.epochs, frozen.loss.class_weights) == (True, 15, True)
    assert (frozen.dev.every, frozen.dev.patience, frozen.dev.queries) == (50, 1000, 100)


@pytest.mark.parametrize("name", REPBERT)
def test_small_repbert_adds_stand_ins_after_the_papers_systems(name):
    systems, added = (list(read(f"repbert/{name}", small=small).systems) for small in (False, True))
    assert added[: len(systems)] == systems
    assert "MiniLM" in added
    assert "MiniLM" not in systems


def test_published_values_are_those_of_the_papers():
    bert_dmn = read("bert-dmn/table2").published
    assert bert_dmn["insuranceqa-v2"]["BERT-DMN"] == {"AP": 0.406, "RR": 0.484}
    assert bert_dmn["msmarco"]["BERT-DMN"] == {"AP": 0.408, "RR": 0.889}
    piaf = read("piaf/table5").published["squadfr-fquad-piaf"]
    assert piaf["BM25 + ranker"] == {"R@10": 0.85, "R@1": 0.67, "AP": 0.74}
    first = read("repbert/table1").published["msmarco"]["RepBERT"]
    assert first == {"RR@10": 0.304, "RR@10 test": 0.294, "R@1000": 0.943, "ms/query": 80}
    second = read("repbert/table2").published["msmarco"]["docTTTTTquery"]
    assert second == {"5": 0.314, "10": 0.351, "50": 0.375, "500": 0.380, "1000": 0.380}


def test_printed_diagonals_agree_between_tables():
    printed = {name: read(f"repbert/{name}").published["msmarco"] for name in REPBERT if name != "figure2"}
    diagonals = {
        name: {row: values[row] for row, values in printed[name].items()} for name in ("table3", "table4")
    }
    assert diagonals["table4"] == {row: values["1000"] for row, values in printed["figure1a"].items()}
    for row in ("DeepCT", "docTTTTTquery", "RepBERT"):
        assert diagonals["table3"][row] == printed["table1"][row]["RR@10"]


def test_packaged_trainings_are_settings():
    folder = EXPERIMENTS / "trainings"
    records = {
        str(path.relative_to(folder)): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.yaml"))
    }
    grid = TrainingPlan.model_validate(records.pop("piaf/grid.yaml"))
    assert len(grid.combinations) == 108
    repbert = {name: BiEncoderTraining.model_validate(record) for name, record in records.items()}
    assert repbert["repbert/msmarco.yaml"] == BiEncoderTraining.model_validate(
        {"data": {"collection": "msmarco"}}
    )
