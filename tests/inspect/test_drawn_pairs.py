"""Pairs drawn from a collection's candidates."""

from __future__ import annotations

from collections import Counter

import pytest

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.inspect.drawn_pairs import CandidateLists, draw_by_class, draw_pairs
from telerank.types import Doc, Qrel, Query, Ranking

QUERIES = [Query(f"q{n}", f"question {n}") for n in range(4)]
DOCS = [Doc(f"d{n}", f"text {n}", title=f"title {n}") for n in range(12)]
QRELS = [
    Qrel("q0", "d0", 1),
    Qrel("q1", "d1", 1),
    Qrel("q1", "d11", 2),
    Qrel("q2", "d5", 0),
    Qrel("q3", "d3", 1),
]


def source(rankings=None, qrels=QRELS):
    collection = Collection(
        "small",
        "memory",
        docs=lambda: iter(DOCS),
        queries={"test": lambda: iter(QUERIES)},
        qrels={"test": lambda: iter(qrels)} if qrels else {},
    )
    lists = rankings or [
        Ranking.ranked(Query(f"q{n}", ""), [f"d{i}" for i in range(5)], range(5)) for n in range(3)
    ]
    return CandidateLists(collection, "test", lambda: iter(lists))


def test_all_candidates_are_drawn_where_there_are_few_with_their_texts():
    found = draw_pairs(source(), 100)
    assert [(one.qid, one.docno) for one in found] == [(f"q{n}", f"d{i}") for n in range(3) for i in range(5)]
    assert (found[0].query, found[0].passage) == ("question 0", "title 0 text 0")
    assert [one.docno for one in found if one.relevant] == ["d0", "d1"]


def test_the_seed_decides_what_is_drawn():
    assert draw_pairs(source(), 6, seed=1) == draw_pairs(source(), 6, seed=1)
    assert draw_pairs(source(), 6, seed=1) != draw_pairs(source(), 6, seed=2)
    assert len(set(draw_pairs(source(), 6))) == 6


def test_every_candidate_is_as_likely():
    times = Counter(one.docno + one.qid for seed in range(600) for one in draw_pairs(source(), 3, seed=seed))
    assert len(times) == 15
    assert all(80 < count < 165 for count in times.values())  # 120 expected


def test_relevant_pairs_come_from_the_qrels_and_others_from_the_candidates():
    found = draw_by_class(source(), relevant=10, others=4)
    assert {(one.qid, one.docno) for one in found if one.relevant} == {
        ("q0", "d0"),
        ("q1", "d1"),
        ("q1", "d11"),
    }
    rest = [(one.qid, one.docno) for one in found if not one.relevant]
    assert len(rest) == 4
    assert not {("q0", "d0"), ("q1", "d1")} & set(rest)


def test_without_qrels_nobody_knows_what_is_relevant():
    assert {one.relevant for one in draw_pairs(source(qrels=None), 5)} == {None}


def test_what_the_collection_lacks_is_named():
    with pytest.raises(CollectionError, match="small lacks document 'd99' of the candidates"):
        draw_pairs(source([Ranking.ranked(QUERIES[0], ["d99"], [1])]), 5)
    with pytest.raises(CollectionError, match="small, split 'test', lacks query 'q9' of the candidates"):
        draw_pairs(source([Ranking.ranked(Query("q9", ""), ["d1"], [1])]), 5)
    with pytest.raises(CollectionError, match="small: no candidates"):
        draw_pairs(source([Ranking(QUERIES[0])]), 5)
    with pytest.raises(CollectionError, match="no query with candidates has a relevant document"):
        draw_by_class(source([Ranking(QUERIES[2])]), relevant=1, others=1)
