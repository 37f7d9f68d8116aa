"""Re-ranking accuracy by depth."""

from __future__ import annotations

import numpy as np
import pytest

from letters import ByLength
from telerank.evaluation.depth import measure_reranking, reorder, rerank_by_run
from telerank.evaluation.measures import measure
from telerank.types import Query, Ranking


def listed(qid: str, *names: str) -> Ranking:
    return Ranking(Query(qid, ""), names, np.arange(len(names), 0, -1))


FIRST = [listed("1", "ace", "bad", "face", "bear attacks"), listed("2", "zebra", "bee")]
QRELS = {"1": {"bear attacks": 1, "face": 1}, "2": {"zebra": 1}, "3": {"ace": 1}}


@pytest.mark.parametrize("batch", [1, 5])
def test_each_depth_is_the_first_stage_cut_there_and_reranked(batch):
    found = measure_reranking(FIRST, ByLength(batch), QRELS, "RR@10 R@2", [1, 2, 3, 9])
    for depth, one in zip([1, 2, 3, 9], found.evaluations, strict=True):
        cut = ByLength()(ranking.cut(depth) for ranking in FIRST)
        assert one.mean == pytest.approx(measure(cut, QRELS, "RR@10 R@2").mean)
    assert found.of("RR@10") == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert (found.candidates, found.unscored) == (6, 0)


def test_a_query_that_is_not_judged_is_not_reranked():
    asked = []

    def reranker(stream):
        asked.extend(ranking.query.qid for ranking in stream)
        return stream

    measure_reranking([*FIRST, listed("9", "ace")], reranker, QRELS, "RR", [2])
    assert asked == ["1", "2"]


def test_a_run_of_scores_reranks():
    scores = [Ranking.ranked(Query("1", ""), ["bad", "bear attacks", "elsewhere"], [1.0, 5.0, 9.0])]
    found = measure_reranking(FIRST, rerank_by_run(scores), QRELS, "RR", [3, 4])
    assert found.of("RR") == pytest.approx([(1 / 3 + 1) / 3, (1 + 1) / 3])
    assert (found.candidates, found.unscored) == (6, 4)


def test_what_has_no_score_stays_below_in_its_order():
    assert reorder(FIRST[0], {"bad": -5.0, "bear attacks": -3.0}).docnos == (
        *("bear attacks", "bad"),
        *("ace", "face"),
    )


def test_a_reranker_that_answers_something_else_is_refused():
    with pytest.raises(ValueError, match="the re-ranker returned query 2 instead of 1"):
        measure_reranking(FIRST, lambda stream: reversed(list(stream)), QRELS, "RR", [1])
    with pytest.raises(ValueError, match="depths must be 1 or more"):
        measure_reranking(FIRST, ByLength(), QRELS, "RR", [])
