"""Measures of ir_measures in place of their names."""

from __future__ import annotations

import ir_measures
import pytest
from ir_measures import AP, RR, nDCG

import telerank as tr
from telerank.evaluation.measures import parse_measures
from telerank.evaluation.tune import Folds
from telerank.experiments.judged_queries import JudgedQueries
from telerank.types import Query, Ranking

QRELS = {"1": {"a": 1}, "2": {"b": 2, "c": 1}}
RUNS = {
    name: [Ranking.ranked(Query(qid, ""), list("abc"), scores) for qid in QRELS]
    for name, scores in (("first", (3, 2, 1)), ("second", (1, 2, 3)))
}


@pytest.mark.parametrize(
    "measures", [nDCG @ 10, [nDCG @ 10], (nDCG @ 10, "AP", AP(rel=2)), nDCG(dcg="exp-log2") @ 5]
)
def test_measures_are_named_as_ir_measures_prints_them(measures):
    listed = measures if isinstance(measures, list | tuple) else [measures]
    assert list(map(ir_measures.parse_measure, parse_measures(measures))) == [
        ir_measures.parse_measure(str(measure)) for measure in listed
    ]


def test_every_verb_takes_measures():
    judged = tr.judge(RUNS, QRELS)
    assert tr.evaluate(judged, nDCG @ 10).evaluations["first"].measures == ("nDCG@10",)
    assert list(tr.evaluate(judged, [nDCG, AP], depths=[1, 2]).expanded) == ["nDCG", "AP"]
    assert tr.compare(judged, measures=[nDCG @ 10, AP]).measures == ("nDCG@10", "AP")
    assert "RR@10" in str(tr.combine(judged, RR @ 10))
    assert tr.tune_fusion(judged, AP, folds=Folds(2)).result.measure == "AP"
    queries = JudgedQueries(tuple(Query(qid, "") for qid in QRELS), QRELS)
    result = tr.experiment(RUNS, queries, measures=[nDCG @ 10, RR])
    assert "nDCG@10" in str(result)
