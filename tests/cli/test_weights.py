"""Weights of terms, CIFF and expansions, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import telerank as tr
from commands import ok, refusal
from small_models import small_masked
from small_seq2seq import small_t5

DOCS = {"d1": "q1 d1 x1", "d2": "q2 d2 x1", "d3": "q3 d3 x2"}
VECTORS = {"d1": {"q7": 2.0, "x1": 1.0}, "d2": {"q7": 1.0}, "d3": {"x2": 3.0}}


def write(name, records):
    Path(name).write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Documents, their vectors, and queries that were predicted for them, in the working folder."""
    monkeypatch.chdir(tmp_path)
    write("docs.jsonl", ({"docno": docno, "text": text} for docno, text in DOCS.items()))
    write("weights.jsonl", ({"id": docno, "vector": vector} for docno, vector in VECTORS.items()))
    queries = {"d1": ["who is q9"], "d2": ["what is q8"], "d3": []}
    write("queries.jsonl", ({"id": docno, "predicted_queries": own} for docno, own in queries.items()))


def search(index, query, model):
    lines = ok(f"search {index} -q '{query}' --model '{model}' --json").stdout
    return [hit["docno"] for hit in json.loads(lines)["ranking"]]


def test_weights_of_a_file_are_indexed_searched_and_go_out_and_in_as_ciff():
    ok("index docs.jsonl idx --weights weights.jsonl")
    assert search("idx", "q7", "impact") == ["d1", "d2"]
    assert "whole numbers" in ok("index info idx").stdout
    said = ok("index export-ciff idx idx.ciff.gz --weights").stderr
    assert "wrote idx.ciff.gz: 3 documents, 3 terms, 4 postings" in said
    ok("index docs.jsonl again --weights idx.ciff.gz")
    assert search("again", "q7 x2", "impact") == search("idx", "q7 x2", "impact")
    ok("index export-ciff idx counts.ciff")
    assert "counts.ciff" in refusal("index docs.jsonl other --weights counts.ciff/none")
    write("new.jsonl", [{"docno": "d4", "text": "x"}])
    assert "give those of new documents" in refusal("index add new.jsonl idx")
    write("more.jsonl", [{"id": "d4", "vector": {"q7": 9}}])
    ok("index add new.jsonl idx --weights more.jsonl")
    assert search("idx", "q7", "impact")[0] == "d4"


def test_weights_of_a_model_are_indexed_and_searched(tmp_path):
    model = small_masked(tmp_path / "splade")
    ok(f"index docs.jsonl idx --weights-model {model}")
    found = search("idx", "q1 d1", "impact")
    assert found == list(tr.open("idx").impact().search("q1 d1").docnos)
    assert sorted(found) == ["d1", "d2", "d3"]
    assert "not both" in refusal(f"index docs.jsonl x --weights weights.jsonl --weights-model {model}")


def test_documents_are_expanded(tmp_path):
    ok("index docs.jsonl idx --expansion queries.jsonl")
    pipeline = "bm25f(title=1, text=1, expansion=1, lengths=combined)"
    assert search("idx", "q9", "bm25") == []
    assert search("idx", "q9", pipeline) == ["d1"]
    write("new.jsonl", [{"docno": "d4", "text": "x"}])
    write("more.jsonl", [{"id": "d4", "predicted_queries": ["q9 q9"]}])
    ok("index add new.jsonl idx --expansion more.jsonl")
    assert set(search("idx", "q9", pipeline)) == {"d1", "d4"}
    model = small_t5(tmp_path / "t5")
    said = ok(f"expand docs.jsonl made.jsonl --model {model} --queries 2 --max-query 4").stderr
    assert "of 3 documents" in said
    assert len(Path("made.jsonl").read_text().splitlines()) == 3
    assert "is there already" in refusal(f"expand docs.jsonl made.jsonl --model {model}")
    assert "greedy finds one query" in refusal(f"expand docs.jsonl x.jsonl --model {model} --sampling greedy")
    assert "2 queries of 3 documents" in ok("expand docs.jsonl out.jsonl --predicted queries.jsonl").stderr
