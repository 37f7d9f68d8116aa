"""``telerank rerank``."""

from __future__ import annotations

import json

import pytest

from documents import in_process
from small_rerankers import small_reranker
from telerank.models.reranker import save_reranker
from telerank.rerank.scorer import Scorer
from telerank.trec import read_run

RUN = "q0 Q0 a 1 3 t\nq0 Q0 b 2 2 t\nq0 Q0 c 3 1 t\nq1 Q0 b 1 2 t\nq1 Q0 a 2 1 t\n"
DOCS = {"a": "d1 d2 d3", "b": "d4 d5", "c": "d6 " * 60}
QUERIES = {"q0": "q1 d4", "q1": "q2 d1"}


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
    (tmp_path / "first.run").write_text(RUN)
    return tmp_path


def rerank(*more):
    return in_process(["telerank", "rerank", "first.run", "--model", "mono", *more])


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


def test_what_int8_loses_is_said(here):
    pytest.importorskip("nncf")
    (here / "dev.run").write_text(RUN)
    given = ("--precision", "int8", "--backend", "openvino", "--dev", "dev.run", "--dev-split", "test")
    said = rerank("-c", "set", "--split", "test", *given, "-o", "out.run")
    assert "int8: nDCG@10" in said
    assert "1 dev queries that it was not calibrated on" in said
    assert set(json.loads((here / "out.run.json").read_text())["loss"]["nDCG@10"]) == {"int8", "float32"}


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
