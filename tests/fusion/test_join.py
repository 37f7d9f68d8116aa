"""Runs read side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telerank.fusion import join_runs
from telerank.types import Query, Ranking

qids = st.lists(st.sampled_from("123456"), unique=True)


def run(name: str, qids, text: str = "") -> list[Ranking]:
    return [Ranking(Query(qid, text), (f"{name}{qid}",), [1.0]) for qid in qids]


@given(st.lists(qids, min_size=1, max_size=4))
def test_every_query_comes_once_with_its_list_of_each_run(asked):
    found = list(join_runs([run(f"r{i}-", one) for i, one in enumerate(asked)]))
    assert sorted(lists[0].query.qid for lists in found) == sorted({qid for one in asked for qid in one})
    for lists in found:
        qid = lists[0].query.qid
        assert [one.docnos for one in lists] == [
            (f"r{i}-{qid}",) if qid in one else () for i, one in enumerate(asked)
        ]


def test_runs_in_the_same_order_are_read_in_step():
    read = []

    def told(name):
        for ranking in run(name, "123456"):
            read.append(name)
            yield ranking

    lists = join_runs([told("a"), told("b")])
    next(lists)
    assert read == ["a", "b"]


def test_the_first_text_of_a_query_stands_and_one_that_comes_twice_is_refused():
    (lists,) = join_runs([run("a", "1"), run("b", "1", "why?")])
    assert [one.query for one in lists] == [Query("1", "why?")] * 2
    with pytest.raises(ValueError, match="query 1 occurs twice in run 2"):
        list(join_runs([run("a", "12"), run("b", "11")]))
