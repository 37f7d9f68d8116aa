"""A function as a measure, and measures that ir_measures defines by a function."""

from __future__ import annotations

import ir_measures
import pytest

import telerank as tr
from small_set import write_beir
from telerank.errors import ArgumentTypeError, MeasureError
from telerank.evaluation.measures import measure
from telerank.types import Query, Ranking

QRELS = {"1": {"a": 2, "b": 0, "c": 1}, "2": {"a": 1}, "3": {"z": 1}}
RUN = [
    Ranking.ranked(Query("1", ""), ("c", "x", "a"), [3, 2, 1]),
    Ranking.ranked(Query("2", ""), ("x", "y", "a"), [3, 2, 1]),
]


def test_a_function_gets_the_grades_by_rank_and_all_grades():
    asked = []

    def found_share(ranked: list[int], judged: list[int]) -> float:
        asked.append((ranked, judged))
        return sum(ranked) / sum(judged)

    found = tr.measure("found_share", found_share)
    evaluation = measure(RUN, QRELS, [found, found @ 2, "found_share@1", "RR@10"])
    assert list(evaluation.of("found_share").values()) == [1.0, 1.0, 0.0]
    assert list(evaluation.of("found_share@2").values()) == [1 / 3, 0.0, 0.0]
    assert evaluation.mean["found_share@1"] == pytest.approx(1 / 9)
    assert asked[0] == ([1, 0, 2], [2, 1, 0])


def test_parameters_are_tuned_by_a_function(tmp_path):
    docs = [
        {"_id": "short", "title": "", "text": "a press"},
        {"_id": "long", "title": "", "text": "press " * 9},
    ]
    queries = {str(n): "press" for n in range(4)}
    data = write_beir(tmp_path / "data", docs, queries, {"test": [(qid, "long", 1) for qid in queries]})
    index = tr.index(data, tmp_path / "idx", analyzer="english", progress=False)
    first = tr.measure("first_grade", lambda ranked, judged: float(ranked[0]))  # noqa: ARG005
    by_function = ir_measures.define_byquery(
        lambda _, run: float(run.doc_id.iloc[0] == "long"), name="is_long"
    )
    for own in (first, by_function):
        tuned = tr.tune(index, data, settings=["bm25(k1=0)", "bm25(k1=9, b=0)"], measures=own, folds=2)
        assert (tuned.chosen, tuned.dev) == ((1, 1), (0.0, 1.0))


def test_a_measure_that_ir_measures_defines_by_query_is_one():
    def last_found(qrels, run):
        relevant = set(qrels[qrels.relevance > 0].doc_id)
        return sum(run.doc_id.isin(relevant)) / len(run)

    defined = ir_measures.define_byquery(last_found, name="last_found")
    evaluation = measure(RUN, QRELS, [defined, defined @ 1, ir_measures.P @ 1])
    assert list(evaluation.of("last_found").values()) == [2 / 3, 1 / 3, 0.0]
    assert evaluation.of("last_found@1") == evaluation.of("P@1")


def test_a_function_that_is_no_measure_is_refused():
    with pytest.raises(ArgumentTypeError, match="function must be a function, got 3"):
        tr.measure("three", 3)
    for name in ("", "a b", "nDCG@10"):
        with pytest.raises(MeasureError, match="is not a name of a measure"):
            tr.measure(name, max)
    with pytest.raises(MeasureError, match="nDCG is a measure of ir_measures: give yours another name"):
        tr.measure("nDCG", max)
    with pytest.raises(MeasureError, match="a measure is a mean or a sum, got 'max'"):
        tr.measure("most", max, aggregate="max")
    with pytest.raises(MeasureError, match="a cutoff is a whole number of at least 1, got 0"):
        tr.measure("most", max) @ 0
    for wrong in (float("nan"), "1", True, None):
        tr.measure("wrong", lambda ranked, judged, value=wrong: value)  # noqa: ARG005
        with pytest.raises(MeasureError, match="wrong: expected a finite number for the query 1, got"):
            measure(RUN, QRELS, "wrong")
