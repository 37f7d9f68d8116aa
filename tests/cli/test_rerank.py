"""``telerank rerank``."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import torch

from documents import in_process
from small_rerankers import small_reranker
from telerank.models.rerankers.reranker import save_reranker
from telerank.pipelines import lazy_run
from telerank.reranking import scorer
from telerank.reranking.backends import BackEndSettings
from telerank.reranking.scorer import Scorer
from telerank.trec import read_run

RUN = "q0 Q0 a 1 3 t\nq0 Q0 b 2 2 t\nq0 Q0 c 3 1 t\nq1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n"
DOCS = {"a": "d1 d2 d3", "b": "d4 d5", "c": "d6 " * 60}
QUERIES = {"q0": "q1 d4", "q1": "q2 d1", "q2": "q3", "q3": "q4 d6"}
DEV = RUN.replace("q1 ", "q3 ").replace("q0 ", "q2 ")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_reranker(small_reranker(tmp_path), tmp_path / "mono")
    (tmp_path / "set" / "qrels").mkdir(parents=True)
    docs = (json.dumps({"_id": docno, "title": "", "text": text}) for docno, text in DOCS.items())
    (tmp_path / "set" / "corpus.jsonl").write_text("\n".join(docs) + "\n")
    queries = "\n".join(json.dumps({"_id": qid, "text": text}) for qid, text in QUERIES.items()) + "\n"
    (tmp_path / "set" / "queries.jsonl").write_text(queries)
    qrels = "query-id\tcorpus-id\tscore\nq0\tb\t1\nq1\ta\t1\n"
    (tmp_path / "set" / "qrels" / "test.tsv").write_text(qrels)
    qrels = qrels.replace("q1", "q3").replace("q0", "q2")
    (tmp_path / "set" / "qrels" / "dev.tsv").write_text(qrels)
    (tmp_path / "first.run").write_text(RUN)
    (tmp_path / "dev.run").write_text(DEV)
    return tmp_path


def rerank(*more, run="first.run"):
    return in_process(["telerank", "rerank", run, "--model", "mono", *more])


def piped(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


def test_a_run_is_written_with_the_scores_of_the_model(here):
    rerank("-c", "set", "--split", "test", "--depth", "2", "-k", "1", "-o", "out.run")
    found = list(read_run("out.run"))
    assert [len(one) for one in found] == [1, 1]
    expected = Scorer("mono").score([(QUERIES["q0"], DOCS[docno]) for docno in "ab"])
    assert found[0].scores[0] == pytest.approx(expected.max(), abs=1e-5)
    record = json.loads((here / "out.run.json").read_text())
    assert (record["pairs"], record["cut pairs"], record["depth"], record["backend"]) == (4, 0, 2, "torch")


def test_what_is_cut_is_said_and_json_is_written(here):
    said = rerank("-c", "set", "--split", "test", "--json").splitlines()
    assert [json.loads(line)["qid"] for line in said[:2]] == ["q0", "q1"]
    assert said[-1] == "1 pair longer than 48 tokens: cut there, 17 tokens were not read"


def test_json_goes_into_a_file_as_well(here):
    printed = rerank("-c", "set", "--split", "test", "--json").splitlines()
    rerank("-c", "set", "--split", "test", "--json", "-o", "out.jsonl")
    assert (here / "out.jsonl").read_text().splitlines() == printed[:2]
    assert json.loads((here / "out.jsonl.json").read_text())["pairs"] == 5


def test_documents_that_nobody_has_are_refused_before_anything_is_scored(here):
    (here / "first.run").write_text(f"{RUN}q1 Q0 nope 3 0 t\nq1 Q0 none 4 0 t\n")
    said = rerank("-c", "set", "--split", "test", "-o", "out.run")
    assert said == "telerank: first.run: 'none' (and 1 more) is none of the documents of set\n"
    assert not Path("out.run").exists()


@pytest.mark.parametrize("device", ["nonsense", "cuda:77"])
def test_a_device_that_is_not_there_is_named(here, device):
    said = rerank("-c", "set", "--split", "test", "-o", "out.run", "--device", device)
    assert said.startswith(f"telerank: device '{device}': ")


def test_the_record_names_the_precision_that_auto_chose(here, monkeypatch):
    rerank("-c", "set", "--split", "test", "-o", "plain.run")
    monkeypatch.setattr(BackEndSettings, "where", property(lambda _: torch.device("cuda")))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    monkeypatch.setattr(scorer, "compute", lambda computable, *_: computable.model)  # what a GPU would do
    with torch.inference_mode():
        said = rerank("-c", "set", "--split", "test", "-o", "gpu.run")
    chosen = [json.loads((here / f"{name}.run.json").read_text())["precision"] for name in ("plain", "gpu")]
    assert chosen == ["float32", "bfloat16"]
    assert "by mono in torch bfloat16" in said


INT8 = ("--precision", "int8", "--backend", "openvino", "--dev-split", "dev")


def test_what_int8_loses_is_said(here):
    pytest.importorskip("nncf")
    said = rerank("-c", "set", "--split", "test", *INT8, "--dev", "dev.run", "-o", "out.run")
    assert "int8: nDCG@10" in said
    assert "1 dev queries that it was not calibrated on" in said
    assert set(json.loads((here / "out.run.json").read_text())["loss"]["nDCG@10"]) == {"int8", "float32"}


@pytest.mark.parametrize("run", ["first.run", "-"])
def test_int8_is_not_calibrated_on_what_is_scored(here, monkeypatch, run):
    (here / "first.run").write_text(RUN + "q3 Q0 a 1 3 t\n")
    piped(monkeypatch, RUN + "q3 Q0 a 1 3 t\n")
    (here / "some.tsv").write_text("".join(f"{qid}\t{text}\n" for qid, text in QUERIES.items()))
    said = rerank("-c", "set", "-q", "some.tsv", *INT8, "--dev", "dev.run", "-o", "out.run", run=run)
    assert said == f"telerank: {run}: query q3 is in --dev, too: int8 needs other queries there\n"
    assert not Path("out.run").exists()


@pytest.mark.parametrize("run", ["first.run", "-", "pipe"])
@pytest.mark.parametrize("documents", ["index", "collection"])
def test_a_run_comes_from_a_file_or_a_pipe(here, monkeypatch, run, documents):
    piped(monkeypatch, RUN)
    os.mkfifo("pipe")
    if run == "pipe":
        Thread(target=Path("pipe").write_text, args=(RUN,), daemon=True).start()
    given = ("-c", "set", "--split", "test")
    if documents == "index":
        in_process(["telerank", "index", "set", "idx"])
        given += ("-i", "idx")
    rerank(*given, "-o", "out.run", run=run)
    for one in read_run("out.run"):
        texts = [(QUERIES[one.query.qid], DOCS[docno]) for docno in one.docnos]
        assert one.scores == pytest.approx(Scorer("mono").score(texts), abs=1e-5)
    assert [len(one) for one in read_run("out.run")] == [3, 2]


@pytest.mark.parametrize("run", ["many.run", "-"])
def test_with_an_index_no_more_of_a_run_is_held_than_is_scored_at_once(here, monkeypatch, run):
    names = [f"q{n}" for n in range(60)]
    lines = "".join(f"{qid} Q0 {docno} 1 1 t\n" for qid in names for docno in "a")
    Path("many.run").write_text(lines)
    Path("many.tsv").write_text("".join(f"{qid}\tq1\n" for qid in names))
    piped(monkeypatch, lines)
    in_process(["telerank", "index", "set", "idx"])
    monkeypatch.setattr(scorer, "_WINDOW", 4)
    read, before = [], []

    def reading(path):
        for one in read_run(path):
            read.append(one.query.qid)
            yield one

    def writing(_, found, **__):
        before.extend(len(read) for _ in found)

    monkeypatch.setattr("telerank.verbs.rerank.read_run", reading)
    monkeypatch.setattr(lazy_run, "write_run", writing)
    rerank("-q", "many.tsv", "-i", "idx", "-o", "out.run", run=run)
    counted_first = 60 if run == "many.run" else 0
    assert (len(before), len(read)) == (60, 60 + counted_first)
    assert all(held - counted_first - number <= 12 for number, held in enumerate(before))


def test_lengths_are_those_that_are_asked_for(here):
    rerank("-c", "set", "--split", "test", "--max-length", "12", "--max-query", "1", "-o", "out.run")
    expected = Scorer("mono", max_query=1, max_length=12)
    found = next(read_run("out.run"))
    assert found.scores == pytest.approx(
        expected.score([("q1 d4", DOCS[docno]) for docno in found.docnos]), abs=1e-5
    )
    record = json.loads(Path("out.run.json").read_text())
    assert (record["max_query"], record["max_length"], record["cut pairs"]) == (1, 12, 5)
    said = rerank("-c", "set", "--split", "test", "--max-length", "67")
    assert said == "telerank: pairs of 67 tokens, but the model has 66 positions\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "the queries' texts are missing: give --queries or --collection"),
        (("-q", "set/queries.jsonl"), "the documents' texts are missing: give --index or --collection"),
        (
            ("-c", "set", "--split", "test", "--precision", "int8", "--backend", "openvino"),
            "int8 goes with --dev",
        ),
        (("-c", "set", "--split", "test", "--backend", "tpu"), "no back end is called 'tpu'"),
    ],
)
def test_what_is_missing_is_said_in_one_line(here, more, message):
    said = rerank(*more)
    assert said.startswith("telerank: ")
    assert message in said


def test_a_query_without_a_text_is_named(here):
    (here / "some.tsv").write_text("q0\tq1 d4\n")
    said = rerank("-q", "some.tsv", "-c", "set")
    assert said == "telerank: first.run: query q1 is none of the 1 queries of some.tsv\n"


def test_a_query_without_a_text_is_refused_before_anything_is_scored(here, monkeypatch):
    (here / "some.tsv").write_text("q0\tq1 d4\n")
    in_process(["telerank", "index", "set", "idx"])
    (here / "unreadable").mkdir()
    (here / "unreadable/config.json").write_text("{}")
    asked = ("-q", "some.tsv", "-i", "idx", "--model", "unreadable")
    assert rerank(*asked) == "telerank: first.run: query q1 is none of the 1 queries of some.tsv\n"
    piped(monkeypatch, RUN.replace("q0", "q9"))
    assert rerank(*asked, run="-") == "telerank: -: query q9 is none of the 1 queries of some.tsv\n"
