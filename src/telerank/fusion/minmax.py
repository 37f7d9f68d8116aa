"""Min-max scaling of the scores of a query to [0, 1], so that lists of different scales can be added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from telerank.expressions import call_text
from telerank.fusion.lists import find_rank
from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking


def scale_scores(ranking: Ranking) -> Ranking:
    """(score - minimum) / (maximum - minimum) over the ranking (Piaf report, equation 20).

    The formula does not cover a list of equal scores: they become 1, so that the first document of
    every list has 1, and a document retrieved alone counts. In a sum, a document that is not in a list
    counts 0, like the last one: how much worse it is is unknown.
    """
    if not len(ranking):
        return ranking
    scores = ranking.scores.astype(np.float64)  # the difference of two float32 may overflow float32
    spread = scores[0] - scores[-1]
    between = (scores - scores[-1]) / spread if spread else np.ones_like(scores)
    return Ranking.ranked(ranking.query, ranking.docnos, between)  # rounding may create ties


@dataclass(frozen=True, repr=False)
class MinMax(Stage):
    """The lists of the stage, their scores scaled to [0, 1] (:func:`scale_scores`)."""

    stage: Stage

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (scale_scores(ranking) for ranking in self.stage(stream))

    def after(self, first: Stage) -> Stage:
        return MinMax(self.stage.after(first))

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        ranking = self.stage.search(query)
        rank = find_rank(ranking, docno)
        if rank is None:
            raise KeyError(docno)
        value, least, greatest = scale_scores(ranking), ranking.scores[-1], ranking.scores[0]
        what = f"between the least ({least:.6g}) and the greatest ({greatest:.6g}) of {len(ranking)} scores"
        return Explanation(dict(value)[docno], what, (part,))

    @property
    def text(self) -> str:
        return call_text("minmax", self.stage.text)


def minmax(stage: Stage) -> MinMax:
    """Scale the scores of a stage: ``0.4 * minmax(bm25 % 1000) + 0.6 * minmax(dense % 1000)``."""
    return MinMax(stage)
