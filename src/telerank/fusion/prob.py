"""Probabilities of relevance: the sigmoid of a re-ranker's logits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from telerank.expressions import call_text
from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking


@dataclass(frozen=True, repr=False)
class Probability(Stage):
    """The rankings of the stage with 1 / (1 + exp(-score)) as scores (Piaf report, equation 15)."""

    stage: Stage

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in self.stage(stream):
            yield Ranking.ranked(ranking.query, ranking.docnos, _sigmoid(ranking.scores))

    def after(self, first: Stage) -> Stage:
        return Probability(self.stage.after(first))

    def explanation(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explanation(query, docno)
        value = float(_sigmoid(np.array([part.value], np.float32))[0])
        return Explanation(value, "sigmoid of", (part,))

    @property
    def text(self) -> str:
        return call_text("prob", self.stage.text)


def prob(stage: Stage) -> Probability:
    """The probabilities of a re-ranker's logits: ``minmax(bm25) + prob(bm25 >> rerank(monobert))``."""
    return Probability(stage)


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    """In float64, then float32: (N,) -> (N,)."""
    exact = scores.astype(np.float64)
    with np.errstate(over="ignore"):  # exp overflows to infinity, and the sigmoid becomes 0
        return (1.0 / (1.0 + np.exp(-exact))).astype(np.float32)
