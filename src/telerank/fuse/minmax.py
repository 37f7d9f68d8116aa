"""Scores of one query brought to [0, 1], so that lists of different scales can be added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from telerank.fuse.lists import rank_in
from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking


def scaled(ranking: Ranking) -> Ranking:
    """(score - least) / (greatest - least) over the query's list (Piaf report, equation 20).

    The formula says nothing of a list whose scores are all the same: they become 1, so that the best of
    every list has 1, and that a document found alone counts as found. In a sum, a document that a list
    lacks counts 0, as the last of the list does: nothing says how much worse than the last it is.
    """
    if not len(ranking):
        return ranking
    scores = ranking.scores.astype(np.float64)  # the spread of two float32 may be too large for one
    spread = scores[0] - scores[-1]
    between = (scores - scores[-1]) / spread if spread else np.ones_like(scores)
    return Ranking.ranked(ranking.query, ranking.docnos, between)  # rounding may make scores tie


@dataclass(frozen=True)
class MinMax(Stage):
    """What the stage finds, its scores brought to [0, 1] query by query (:func:`scaled`)."""

    stage: Stage

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (scaled(ranking) for ranking in self.stage(stream))

    def after(self, first: Stage) -> Stage:
        return MinMax(self.stage.after(first))

    def explain(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        ranking = self.stage.search(query)
        rank = rank_in(ranking, docno)
        if rank is None:
            raise KeyError(docno)
        value, least, greatest = scaled(ranking), ranking.scores[-1], ranking.scores[0]
        what = f"between the least ({least:.6g}) and the greatest ({greatest:.6g}) of {len(ranking)} scores"
        return Explanation(dict(value)[docno], what, (part,))


def minmax(stage: Stage) -> MinMax:
    """``0.4 * minmax(bm25 % 1000) + 0.6 * minmax(dense % 1000)``: what is cut is cut before scaling."""
    return MinMax(stage)
