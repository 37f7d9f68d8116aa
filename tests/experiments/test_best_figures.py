"""The figures of BeST and the ranking of documents, on made sets with models of two small layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_bench import run_record, saved_results
from test_long_document_data import robust, towns

from papers import read_paper
from small_models import save_vectors, small_encoder
from small_set import write_beir
from telerank.experiments.report import PooledOutcome
from telerank.experiments.schema import merge
from telerank.verbs.train import lengthen

pytestmark = pytest.mark.train

SMALL = {
    "data": {"queries": 4, "negatives": {"run": "bm25 % 4", "depth": 4}},
    "model": {"max_query": 6, "max_length": 24},
    "optimisation": {"epochs": 1, "batch": 2, "learning_rate": 0.001},
    "dev": {"run": "bm25 % 4", "queries": 2, "depth": 2, "every": "1 epochs", "patience": "1 epochs"},
    "device": "cpu",
}
MODELS = {
    "BeST": {"data": {"segments": {"iterations": 2, "leading": 2}}},
    "PARADE": {"model": {"max_length": 35, "head": {"length": 12, "stride": 10, "passages": 3}}},
}


KNOWN = ("town", "river", "what", "is", "in", "the", "a", "of", ".")
"""Words of the made sets that have vectors."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("best")
    small_encoder(folder / "encoder")
    for name in ("covid-qa", "squad2-dev-half", "xquad-en", "fquad", "piaf"):
        towns(folder / "sets" / name)
    return folder


def run(place: Path, name: str, *on: str, **changes):
    """A packaged experiment on made sets; its models start from the small encoder."""
    record = read_paper(name).record()
    models = record["models"]
    small = {key: own for key, own in MODELS.items() if key in models}
    training = merge(SMALL, {"model": {"start": str(place / "encoder")}})
    over = {"training": training, "models": small, "queries": 3, "depth": 4}
    record = merge(record, {**over, **changes})
    for data in [key for key in record["data"] if key not in on]:
        del record["data"][data]
    for data in record["data"].values():
        if "paper" not in data:  # what differs comes last
            data["differs"] = merge(data.get("differs", {}), over)
    for data in (*record["data"].values(), *record.get("sets", {}).values()):
        if data.get("made_as") == "articles":
            data["recipe"] = {"folds": 5}
    record["published"] = {data: own for data, own in record.get("published", {}).items() if data in on}
    file = f"{name.replace('/', '-')}-{'-'.join(on)}"
    return run_record(record, place / "out", file, on=on, data=[str(place / "sets")])


def test_figure_1_measures_each_iteration_and_pools_the_folds(place):
    *folds, pooled = run(place, "best/figure1", "english-long-1", "english-long-2")
    assert len(folds) == 2
    assert isinstance(pooled, PooledOutcome)
    record = saved_results(folds[0])[0]
    rows = {"Random", "first segment", "BM25 per segment", "BERT (Max P)", "BERT (Gold P)", "random segments"}
    iterations = {"BeST, iteration 1", "BeST, iteration 2"}
    for column in ("P@1 train", "P@1 dev", "P@1"):
        assert record["means"][column].keys() == rows | iterations
    assert record["means"]["dev RR"].keys() == {
        *iterations,
        "BERT (Max P)",
        "BERT (Gold P)",
        "random segments",
    }
    assert record["means"]["changed"].keys() == {"BeST, iteration 2"}
    assert record["pairs"]["P@1 train"] == 4  # those that were learned from
    assert {"iterations.svg", "segments-documents.png"} <= {path.name for path in folds[0].folder.iterdir()}
    both = [fold.results[0].items["P@1"]["BERT (Max P)"] for fold in folds]
    values = [value for fold in both for own in fold.values() for value in own]
    table = saved_results(pooled)[0]["columns"]["P@1"]
    assert table["BERT (Max P)"]["pooled"] == pytest.approx(sum(values) / len(values))
    assert table["BERT (Max P)"]["folds"].keys() == {"english-long-1", "english-long-2"}
    assert {"iterations.svg", "tables.md"} <= {path.name for path in pooled.folder.iterdir()}
    assert "RR by fold" in (pooled.folder / "tables.md").read_text()
    text = (folds[0].folder / "tables.md").read_text()
    assert "training of BeST: " in text
    assert "behind the last segment to learn from" in text  # what a training cut is said


def test_figure_2_measures_by_position_where_relevance_sits_late(place):
    recipe = {"beyond": 12, "length": 40, "filler": 0.5, "folds": 5}
    changes = {"data": {"far-french": {"recipe": recipe}}}
    (outcome,) = run(place, "best/figure2", "far-french", **changes)
    record = {result["kind"]: result for result in saved_results(outcome)}
    systems = {"candidates", "FirstP", "MaxP", "PARADE", "BeST", "GoldP"}
    assert record["positions"]["values"].keys() == systems
    assert "holds at least half of a known relevant text. In " in (outcome.folder / "tables.md").read_text()
    assert record["segments"].keys() >= {"MaxP", "BeST", "GoldP", "BM25 per segment"}
    (row,) = record["behind-first"]["differences"]
    assert (row["group"], row["queries"]) == ("behind the first segment", 3)
    assert record["behind-first"]["compared"] == ["FirstP", "BeST"]


def test_documents_of_another_collection_are_ranked_by_every_aggregate(place):
    docs = [{"_id": f"d{n}", "title": "", "text": f"town number{n} has a river. " * 4} for n in range(12)]
    queries = {f"q{n}": f"river of number{n}" for n in range(6)}
    write_beir(place / "sets" / "dila", docs, queries, {"test": [(f"q{n}", f"d{n}", 1) for n in range(6)]})
    (outcome,) = run(place, "best/documents", "dila")
    aggregates = {"FirstP", "MaxP", "mean", "k-max", "Birch", "PARADE", "BeST", "equation 21"}
    assert saved_results(outcome)[0]["means"].keys() >= {"candidates", *aggregates}
    trained = {path.name.rsplit("-", 2)[0] for path in (place / "out" / "french-long" / "trained").iterdir()}
    assert "BeST" in trained  # it learned from the set, and is kept with it


def test_table_1_cross_validates_on_a_made_set_of_the_format_of_robust04(place, tmp_path):
    robust(place / "sets" / "robust04-title")
    own = {"folds": 2, "data": {"queries": 2}, "dev": {"queries": 2}}
    changes = {
        "seeds": [0],
        "queries": 10,
        "data": {"robust04-title": {"differs": {"training": own, "seeds": [0]}}},
    }
    (outcome,) = run(place, "best/table1", "robust04-title", **changes)
    means = saved_results(outcome)[0]["means"]
    assert means.keys() >= {"candidates", "BERT (First P)", "BERT (Max P)", "BeST"}
    assert "cross-validated" in outcome.systems["BeST"].about


def test_table_1_trains_the_models_of_long_inputs(place, monkeypatch):
    """From an encoder that was made long, and on word vectors."""
    lengthen(place / "encoder", place / "long", max_length=64, window=16)
    monkeypatch.setenv("TELERANK_MODELS", str(place / "models"))
    save_vectors(place / "models" / "glove-300d", KNOWN, torch.randn(len(KNOWN) + 2, 8))
    long = {"model": {"start": str(place / "long"), "max_length": 60}}
    models = {
        "RoBERTa (Max P)": {"model": {"start": str(place / "encoder")}},
        "Longformer-QA": long,
        "QDS-Transformer": long,
        "TKL": {
            "model": {"start": "glove-300d", "max_length": 60},
            "optimisation": {"epochs": 1, "batch": 2},
        },
    }
    others = dict.fromkeys(("BERT (First P)", "BERT (Max P)", "BERT (Gold P)", "BeST"))
    quality = [{"kind": "quality", "measures": ["RR"], "latency_queries": 0}]
    changes = {"models": models, "systems": others, "analyses": quality}
    (outcome,) = run(place, "best/table1", "english-long-1", **changes)
    assert saved_results(outcome)[0]["means"].keys() == {"candidates", *models}
    kinds = {
        path.parent.name.split("-0-")[0]: json.loads((path.parent / "model" / "reranker.json").read_text())[
            "kind"
        ]
        for path in outcome.data.folder.glob("trained/*/config.yaml")
    }
    assert set(kinds.values()) == {"monobert", "qds", "tkl"}
