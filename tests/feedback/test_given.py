"""Documents that are named as feedback, the choice of pipelines by clicks, and its refusal."""

from __future__ import annotations

import json

import pytest

import telerank as tr
from telerank.errors import ArgumentError, CollectionError
from telerank.feedback.given import GivenDocuments, judged_pipeline
from telerank.testing import check_stage
from telerank.types import Query

DOCS = {
    "1": "Gutenberg prints with movable type in Mainz.",
    "2": "Movable type and presses made books cheap in Mainz.",
    "3": "A press of wine from the Rhine.",
    "4": "Books are kept in libraries.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("given") / "index"
    return tr.index(DOCS, folder, analyzer="english", workers=1, progress=False)


def test_judged_documents_are_searched_as_the_first_of_a_ranking_are(index):
    stage = tr.pipeline("documents('2 1') >> rocchio(fb_docs=2, fb_terms=20, max_df=1)", index)
    by_hand = tr.pipeline("bm25 >> rocchio(fb_docs=2, fb_terms=20, max_df=1)", index)
    assert {*index.bm25().search("mainz").docnos} == {"1", "2"}
    assert dict(stage.search("mainz")) == pytest.approx(dict(by_hand.search("mainz")))
    assert stage.search("zzz").docnos[0] in ("1", "2")
    queries = [Query("1", "mainz"), Query("2", ""), Query("3", "wine")]
    for each in (stage, GivenDocuments(("1", "3")), tr.pipeline("documents('1 gone') >> rocchio", index)):
        check_stage(each, queries)
    assert tr.pipeline(repr(stage), index) == stage
    for docnos in ((), ("1", "1")):
        with pytest.raises(ArgumentError, match="each once"):
            GivenDocuments(docnos)


def test_the_address_keeps_the_documents_that_were_judged_before():
    first = judged_pipeline("a#1-0f")
    assert first == "documents('a#1-0f') >> rocchio(fb_docs=1, fb_terms=20)"
    assert judged_pipeline("b", first) == "documents('a#1-0f b') >> rocchio(fb_docs=2, fb_terms=20)"
    assert judged_pipeline("b", judged_pipeline("b", "bm25")) == judged_pipeline("b")
    many = None
    for number in range(30):
        many = judged_pipeline(f"d{number}", many)
    assert "fb_docs=10" in many


def write_use(path, queries, *, clicks):
    lines = []
    for number in range(queries):
        record = {
            "qid": f"q{number}",
            "query": f"movable type mainz {number}",
            "docno": "2",
            "grade": 1,
            "time": "",
            "index": "idx",
        }
        lines.append(json.dumps(record | ({"rank": 1 + number % 4} if number < clicks else {})))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_choice_by_use_is_measured_held_out_and_tells_of_clicks(index, tmp_path):
    file = write_use(tmp_path / "use.jsonl", 24, clicks=16)
    result = tr.tune(index, file, settings=["bm25", "documents('3') >> rocchio"], progress=False)
    assert len(result.folds) == 5
    assert any("16 clicks among the judgments, 25% on the first rank" in note for note in result.notes)
    plain = tr.tune(
        index, write_use(tmp_path / "plain.jsonl", 24, clicks=0), settings=["bm25", "dfi"], progress=False
    )
    assert not any("click" in note for note in plain.notes)


def test_a_choice_by_too_few_queries_is_refused_with_the_number(index, tmp_path):
    with pytest.raises(CollectionError, match="users judged 19 queries; at least 20 are needed"):
        tr.tune(
            index, write_use(tmp_path / "few.jsonl", 19, clicks=3), settings=["bm25", "dfi"], progress=False
        )
