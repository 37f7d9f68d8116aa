"""Re-ranking accuracy by depth."""

from __future__ import annotations

import numpy as np
import pytest

from letters import ByLength
from telerank.evaluate.measures import measure
from telerank.evaluate.reranking import reordered, reranked_by_depth, scored_by
from telerank.types import Query, Ranking


def listed(qid: str, *names: str) -> Ranking:
    return Ranking(Query(qid, ""), names, np.arange(len(names), 0, -1))


FIRST = [listed("1", "ace", "bad", "face", "bear attacks"), listed("2", "zebra", "bee")]
QRELS = {"1": {"bear attacks": 1, "face": 1}, "2": {"zebra": 1}, "3": {"ace": 1}}


@pytest.mark.parametrize("batch", [1, 5])
def test_each_depth_is_the_first_stage_cut_there_and_reranked(batch):
    found = reranked_by_depth(FIRST, ByLength(batch), QRELS, "RR@10 R@2", [1, 2, 3, 9])
    for depth, one in zip(found.depths, found.evaluations, strict=True):
        cut = ByLength()(ranking.cut(depth) for ranking in FIRST)
        assert one.mean == pytest.approx(measure(cut, QRELS, "RR@10 R@2").mean)
    assert found.of("RR@10") == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert (found.candidates, found.unscored) == (6, 0)


def test_a_query_that_is_not_judged_is_not_reranked():
    asked = []

    def reranker(stream):
        asked.extend(ranking.query.qid for ranking in stream)
        return stream

    reranked_by_depth([*FIRST, listed("9", "ace")], reranker, QRELS, "RR", [2])
    assert asked == ["1", "2"]


def test_a_run_of_scores_reranks():
    scores = [Ranking.ranked(Query("1", ""), ["bad", "bear attacks", "elsewhere"], [1.0, 5.0, 9.0])]
    found = reranked_by_depth(FIRST, scored_by(scores), QRELS, "RR", [3, 4])
    assert found.of("RR") == pytest.approx([(1 / 3 + 1) / 3, (1 + 1) / 3])
    assert (found.candidates, found.unscored) == (6, 4)


def test_what_has_no_score_stays_below_in_its_order():
    assert reordered(FIRST[0], {"bad": -5.0, "bear attacks": -3.0}).docnos == (
        *("bear attacks", "bad"),
        *("ace", "face"),
    )


def test_a_reranker_that_answers_something_else_is_refused():
    with pytest.raises(ValueError, match="asked for query 1, the re-ranker answered 2"):
        reranked_by_depth(FIRST, lambda stream: reversed(list(stream)), QRELS, "RR", [1])
    with pytest.raises(ValueError, match="depths must be 1 or more"):
        reranked_by_depth(FIRST, ByLength(), QRELS, "RR", [])
