"""The files of RepBERT and monoBERT, run on made sets of the formats that they need, with encoders of a few weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from small_bench import run_record

pytest.importorskip("torch")
pytest.importorskip("transformers")

from car_set import FOLDS, TEST, car_set
from papers import read_paper, small_msmarco
from telerank.experiments.schema import merge
from telerank.trec import read_run

SHORT = {"steps": 2, "warm_up": 1, "batch": 4, "learning_rate": 0.01}
LENGTHS = {"start": "tiny", "max_query": 12, "max_length": 48}
SHORTENED = {
    "reranker": {"model": LENGTHS, "optimisation": SHORT},
    "bi-encoder": {"model": {"start": "tiny", "document_length": 48}, "optimisation": SHORT},
    "term-weights": {"model": {"start": "tiny", "document_length": 48}, "optimisation": SHORT},
    "expander": {"model": LENGTHS, "optimisation": SHORT},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    marco = small_msmarco(folder / "data" / "msmarco")
    lines = [line.split("\t") for line in (marco / "queries.dev.small.tsv").read_text().splitlines()]
    for split, first in (("train", 100), ("eval.small", 200)):
        (marco / f"queries.{split}.tsv").write_text(
            "".join(f"{first + int(qid)}\t{text}\n" for qid, text in lines[:20])
        )
    judged = [line.split("\t") for line in (marco / "qrels.dev.small.tsv").read_text().splitlines()[:20]]
    train = [(100 + int(qid), docno) for qid, _, docno, _ in judged]
    (marco / "qrels.train.tsv").write_text("".join(f"{qid}\t0\t{docno}\t1\n" for qid, docno in train))
    triples = [f"{qid}\t{docno}\t{(int(docno) + 1) % 120}\n" for qid, docno in train]
    (marco / "qidpidtriples.train.full.2.tsv").write_text("".join(triples))
    pool = [line.split("\t", 1) for line in (marco / "top1000.dev.tsv").read_text().splitlines()]
    few = [f"{200 + int(qid)}\t{rest}\n" for qid, rest in pool if int(qid) < 20]
    (marco / "top1000.eval.tsv").write_text("".join(few))
    car_set(folder / "data" / "trec-car")
    return folder


@pytest.fixture
def run(folder, starts):
    """Runs an experiment of the package on made data, its trainings as short as can be, and shared by the tests."""
    sources = {"data": [str(folder / "data")], "models": [str(starts)]}

    def run_short(name: str, data: str, **changes):
        (outcome,) = run_record(shorten(name, data, changes), folder / "out", **sources)
        return outcome

    return run_short


def shorten(name: str, data: str, changes: dict) -> dict:
    record = read_paper(name).on(data).record()
    models = {model: SHORTENED[settings["train"]] for model, settings in record["models"].items()}
    triples = {"triples": {"file": "qidpidtriples.train.full.2.tsv"}}
    for model, settings in record["models"].items():
        if settings["data"].get("triples"):
            models[model] = {**models[model], "data": triples}
        if settings["model"]["start"] == "glove-300d":
            models[model] = merge(models[model], {"model": {"start": "words"}})
    return merge(merge(record, {"models": models}), changes)


def trained(outcome, name: str) -> dict:
    configs = map(
        yaml.safe_load, map(Path.read_text, outcome.data.folder.glob(f"trained/{name}-0-*/config.yaml"))
    )
    (config,) = (config for config in configs if config["data"]["pairs"] is None)
    return config


def test_monobert_on_ms_marco_re_ranks_official_candidates_of_dev_and_eval(folder, run):
    outcome = run("monobert/table1", "msmarco")
    listed = (folder / "data/msmarco/top1000.dev.tsv").read_text().splitlines()
    candidates = {}
    for line in listed:
        qid, docno, *_ = line.split("\t")
        candidates.setdefault(qid, set()).add(docno)
    for name in ("BERT base", "BERT large"):
        (path,) = outcome.systems[name].runs
        assert {r.query.qid: set(r.docnos) for r in read_run(path)} == candidates
    (submitted,) = outcome.folder.glob("BERT_large*.eval.small.tsv")
    rows = [line.split("\t") for line in submitted.read_text().splitlines()]
    assert {qid: {row[1] for row in rows if row[0] == qid} for qid, *_ in rows} == {
        str(200 + int(qid)): docnos for qid, docnos in candidates.items() if int(qid) < 20
    }
    assert [int(rank) for qid, _, rank in rows if qid == "200"] == list(range(1, 31))
    text = (outcome.folder / "tables.md").read_text()
    assert "RR@10 eval, paper" in text
    assert outcome.lacking["IRNet"] == "not given: its run on this data"
    means = outcome.results[0].record["means"]
    assert means.keys() >= {"KNRM", "Conv-KNRM"}


def test_monobert_on_trec_car_learns_from_four_folds_with_natural_labels(run):
    outcome = run(
        "monobert/table1",
        "trec-car",
        models={
            name: {"dev": {"every": 1, "patience": 2, "queries": 4}} for name in ("monoBERT", "monoBERT-base")
        },
    )
    config = trained(outcome, "monoBERT")
    assert config["data"]["split"] == "+".join(FOLDS[:4])
    assert (config["dev"]["split"], outcome.data.split) == (FOLDS[4], TEST)
    assert outcome.data.counts["judged queries"] == 12  # of sections, not of pages
    lists = list(read_run(config["data"]["listed"]["run"]))
    assert max(len(ranking) for ranking in lists) == 10
    assert {ranking.query.qid[4] for ranking in lists} == set("0123")
    assert outcome.results[0].record["means"]["BERT large"]["AP"] > 0
    assert outcome.results[0].record["published"]["BERT large"] == {"AP": 0.335}
    assert outcome.results[0].record["means"]["Co-PACRR"]["AP"] > 0
    assert trained(outcome, "Co-PACRR")["data"]["split"] == config["data"]["split"]


def test_the_size_curve_trains_the_model_on_each_number_of_pairs(run):
    outcome = run(
        "monobert/figure1",
        "msmarco",
        queries=6,
        analyses=[{"kind": "sizes", "system": "BERT large", "measures": "RR@10", "pairs": [8, 40]}],
    )
    (result,) = outcome.results
    assert list(result.record["by_seed"]) == [8, 40]
    trainings = list(outcome.data.folder.glob("trained/monoBERT-0-*/config.yaml"))
    assert {yaml.safe_load(config.read_text())["data"]["pairs"] for config in trainings} == {None, 8, 40}
    (table,) = result.tables
    assert [row[0].text for row in table.rows] == ["8", "40", "100,000", "12,800,000"]
    assert (outcome.folder / "sizes.svg").is_file()


@pytest.mark.parametrize("name", ["table1", "table2", "table4", "figure2"])
def test_repbert_is_trained_on_triples_and_measured(run, name):
    expanded = (
        "expanded(docTTTTTquery, 'bm25f(title=1, text=1, expansion=1, lengths=combined)', queries=1) % 1000"
    )
    changes = {"systems": {"LM": "lm_dirichlet % 1000", "docTTTTTquery": expanded}, "queries": 6}
    found = {"BM25(Anserini)", "DeepCT", "docTTTTTquery", "RepBERT", "LM"}
    outcome = run(f"repbert/{name}", "msmarco", **changes)
    assert trained(outcome, "RepBERT")["data"]["triples"]["file"].endswith("qidpidtriples.train.full.2.tsv")
    records = [result.record for result in outcome.results]
    if name == "table1":
        assert records[0]["latency_ms"].keys() == {*found, "BM25 + BERT Large"}
        assert (outcome.folder / "RepBERT.eval.small.tsv").is_file()
    if name == "table2":
        assert records[0]["reranker"] == "BERT Large"
        assert records[0]["RR@10"].keys() == found
        assert trained(outcome, "monoBERT")["model"]["kind"] == "monobert"
    if name == "table4":
        assert "R@2000" in (outcome.folder / "tables.md").read_text()
        assert records[1]["published"] == {"RepBERT": {"docTTTTTquery": 0.980}}
    if name == "figure2":
        assert (records[0]["reference"], records[0]["published"]) == ("official candidates", {})


def test_the_mismatch_has_two_re_rankers_over_two_first_stages_and_consistency_both_ways(run):
    outcome = run("repbert/mismatch", "msmarco", queries=6)
    first, second, exact, dense = (result.record for result in outcome.results)
    assert first["RR@10"].keys() == second["RR@10"].keys() == {"BM25(Anserini)", "RepBERT"}
    assert (first["reranker"], second["reranker"]) == ("monoBERT", "monoBERT-RepBERT")
    assert (exact["reference"], dense["reference"]) == ("BM25(Anserini)", "RepBERT")
    config = trained(outcome, "monoBERT-RepBERT")
    negatives = list(read_run(config["data"]["negatives"]["run"]))
    assert len(negatives) == 20
    assert {len(ranking) for ranking in negatives} == {120}  # all passages: RepBERT ranks any
