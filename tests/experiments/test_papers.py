"""The packaged experiments of the papers: what their files may hold, what `small` makes of them, what was printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import telerank
from telerank.expressions import parse_expression
from telerank.training.bi_encoder.config import BiEncoderTraining
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.grid import GridTraining

EXPERIMENTS = Path(telerank.__file__).parent / "experiments"
PAPERS = EXPERIMENTS / "papers"
FILES = {
    "bert-dmn/table2",
    "monobert/table1",
    "piaf/table5",
    *(f"repbert/{name}" for name in ("table1", "table2", "table3", "table4", "figure1a", "figure2")),
}
KEYS = {
    *(
        "title",
        "source",
        "about",
        "data",
        "models",
        "training",
        "seeds",
        "systems",
        "queries",
        "dev",
        "depth",
    ),
    *("seed", "analyses", "published", "small"),
}
DATA_KEYS = {"about", "split", "analyzer", "paper", "made_of", "bundled", "differs"}


def read(name: str) -> dict:
    return yaml.safe_load((PAPERS / f"{name}.yaml").read_text(encoding="utf-8"))


def merge(base: dict, over: dict) -> dict:
    merged = dict(base)
    for key, value in over.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(base[key] if isinstance(base.get(key), dict) else {}, value)
        else:
            merged[key] = value
    return merged


def body(name: str) -> dict:
    return {key: value for key, value in read(name).items() if key != "small"}


def small(name: str) -> dict:
    return merge(body(name), read(name)["small"])


def training(experiment: dict, model: str) -> RerankerTraining:
    settings = {key: value for key, value in experiment["models"][model].items() if key != "train"}
    settings = merge(experiment["training"], settings)
    start = settings["model"]["start"]
    settings["model"]["start"] = start if isinstance(start, str) else start[0]
    return RerankerTraining.model_validate(merge(settings, {"data": {"collection": "the data"}}))


@pytest.mark.parametrize("name", sorted(FILES))
def test_files_hold_what_an_experiment_may_say(name):
    record = read(name)
    assert set(record) <= KEYS
    assert {"title", "source", "data", "systems", "analyses"} <= set(record)
    for experiment in (body(name), small(name)):
        for spec in experiment["data"].values():
            assert {"about", "split"} <= set(spec) <= DATA_KEYS
        for text in experiment["systems"].values():
            parse_expression(text)
    assert any(spec.get("paper") for spec in record["data"].values())
    assert set(record.get("published", {})) <= {
        key for key, spec in record["data"].items() if spec.get("paper")
    }


@pytest.mark.parametrize("name", ["bert-dmn/table2", "monobert/table1", "piaf/table5"])
def test_trainings_are_settings_of_a_reranker(name):
    for experiment in (body(name), small(name)):
        differing = [spec["differs"] for spec in experiment["data"].values() if "differs" in spec]
        for each in (experiment, *(merge(experiment, settings) for settings in differing)):
            assert all(training(each, model) for model in each["models"])


def test_bert_dmn_is_trained_as_the_paper_says():
    experiment = body("bert-dmn/table2")
    wanted = training(experiment, "BERT-DMN")
    assert (wanted.loss.objective, wanted.loss.margin, wanted.loss.of) == ("margin", 0.2, "probability")
    optimisation = wanted.optimisation
    assert (optimisation.optimiser, optimisation.learning_rate) == ("adamw", 3e-5)
    assert (optimisation.batch, optimisation.warm_up) == (32, 1000)
    assert wanted.model.head == {"hidden": 256, "episodes": 4, "dropout": 0.1}
    assert (wanted.model.start, wanted.model.max_length) == ("bert-base-uncased", 512)
    knrm = training(experiment, "K-NRM").optimisation
    assert (knrm.optimiser, knrm.learning_rate, knrm.eps, knrm.batch) == ("adam", 1e-3, 1e-5, 16)
    assert experiment["systems"]["candidates"] == "relevant(pool(500))"
    deep_learning = merge(experiment, experiment["data"]["msmarco"]["differs"])
    assert training(deep_learning, "BERT").optimisation.warm_up == 10_000
    assert training(deep_learning, "K-NRM").optimisation.warm_up == 0


def test_small_bert_dmn_is_the_one_whose_figures_are_published():
    experiment = small("bert-dmn/table2")
    assert list(experiment["data"]) == ["insuranceqa-v2"]
    assert (experiment["queries"], experiment["seeds"]) == (150, [0, 1, 2])
    assert experiment["systems"]["candidates"] == "relevant(pool(500) % 100)"
    schedules = {
        name: (wanted.optimisation.epochs, wanted.optimisation.learning_rate, wanted.optimisation.warm_up)
        for name in experiment["models"]
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
    assert wanted.dev.model_dump() == {
        "split": "valid",
        "run": "candidates",
        "pool": None,
        "depth": 1000,
        "queries": 30,
        "measure": "AP",
        "every": 77,
        "patience": 10_000,
    }


def test_monobert_is_the_papers_and_its_small_copy_todays():
    paper = training(body("monobert/table1"), "monoBERT")
    assert paper == RerankerTraining.model_validate(
        {
            "data": {"collection": "the data", "triples": {"file": "qidpidtriples.train.full.2.tsv.gz"}},
            "model": {"kind": "monobert"},
        }
    )
    copy = small("monobert/table1")
    assert list(copy["data"]) == ["msmarco-slice"]
    assert copy["systems"]["monoBERT"] == "BM25 % 20 >> rerank(monoBERT)"
    assert copy["systems"]["BM25 over the slice"] == "bm25(k1=0.82, b=0.68) % 20"
    wanted = training(copy, "monoBERT")
    assert wanted.data.triples is None
    negatives = wanted.data.negatives
    assert (negatives.run, negatives.depth, negatives.per_positive) == ("BM25 over the slice", 20, 3)
    assert (wanted.optimisation.epochs, wanted.optimisation.batch, wanted.optimisation.tokens) == (1, 8, 4096)
    assert (wanted.model.max_query, wanted.model.max_length) == (64, 192)


def test_piaf_reranks_and_sums_as_the_report_and_as_todays_copy():
    report, copy = body("piaf/table5"), small("piaf/table5")
    fused = "tuned(minmax(BM25), {}('MonoBERT ranker'), by=AP, folds=5, grid={})"
    assert report["systems"]["BM25 + ranker"] == fused.format("prob", "square")
    assert copy["systems"]["BM25 + ranker"] == fused.format("minmax", "simplex")
    tuned, wanted = (training(each, "MonoBERT ranker, fine-tuned") for each in (report, copy))
    assert (tuned.optimisation.epochs, tuned.optimisation.learning_rate, tuned.optimisation.batch) == (
        3,
        1e-5,
        12,
    )
    assert (wanted.optimisation.epochs, wanted.optimisation.learning_rate) == (1, 3e-5)
    assert (tuned.data.negatives.per_positive, wanted.data.negatives.per_positive) == (10, 3)
    frozen = training(copy, "MonoBERT classifier")
    assert (frozen.model.frozen, frozen.optimisation.epochs, frozen.loss.class_weights) == (True, 15, True)
    assert (frozen.dev.every, frozen.dev.patience, frozen.dev.queries) == (50, 1000, 100)


def test_small_repbert_adds_stand_ins_after_the_papers_systems():
    for name in sorted(one for one in FILES if one.startswith("repbert/")):
        systems, added = list(body(name)["systems"]), list(small(name)["systems"])
        assert added[: len(systems)] == systems
        assert "MiniLM" in added
        assert "MiniLM" not in systems


def test_published_values_are_those_of_the_papers():
    bert_dmn = read("bert-dmn/table2")["published"]
    assert bert_dmn["insuranceqa-v2"]["BERT-DMN"] == {"AP": 0.406, "RR": 0.484}
    assert bert_dmn["antique"]["BERT"] == {"AP": 0.697, "RR": 0.849}
    assert bert_dmn["msmarco"]["BERT-DMN"] == {"AP": 0.408, "RR": 0.889}
    assert read("monobert/table1")["published"]["msmarco"]["monoBERT"] == {"RR@10": 0.365}
    piaf = read("piaf/table5")["published"]["squadfr-fquad-piaf"]
    assert piaf["BM25 + ranker"] == {"R@10": 0.85, "R@1": 0.67, "AP": 0.74}
    repbert = {
        name: read(f"repbert/{name}").get("published", {}).get("msmarco", {}) for name in ("table1", "table2")
    }
    assert repbert["table1"]["RepBERT"] == {
        "RR@10": 0.304,
        "RR@10 test": 0.294,
        "R@1000": 0.943,
        "ms/query": 80,
    }
    assert repbert["table2"]["docTTTTTquery"] == {5: 0.314, 10: 0.351, 50: 0.375, 500: 0.380, 1000: 0.380}


def test_printed_diagonals_agree_between_tables():
    diagonals = {
        name: {row: values[row] for row, values in read(f"repbert/{name}")["published"]["msmarco"].items()}
        for name in ("table3", "table4")
    }
    ends = read("repbert/figure1a")["published"]["msmarco"]
    assert diagonals["table4"] == {row: values[1000] for row, values in ends.items()}
    first = read("repbert/table1")["published"]["msmarco"]
    assert all(
        value == first[row]["RR@10"]
        for row, value in diagonals["table3"].items()
        if row in ("DeepCT", "RepBERT")
    )


def test_packaged_trainings_are_settings():
    folder = EXPERIMENTS / "trainings"
    records = {
        str(path.relative_to(folder)): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.yaml"))
    }
    grid = GridTraining.model_validate(records.pop("piaf/grid.yaml"))
    assert len(grid.combinations) == 108
    repbert = {name: BiEncoderTraining.model_validate(record) for name, record in records.items()}
    assert repbert["repbert/msmarco.yaml"] == BiEncoderTraining.model_validate(
        {"data": {"collection": "msmarco"}}
    )
