"""Weighted sums of min-max scaled scores (Piaf report, equation 19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telerank.fusion.lists import check_query
from telerank.fusion.minmax import minmax, scale_scores
from telerank.stage import Stage, Sum, Weighted
from telerank.types import Query, Ranking


def sum_rankings(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """Sum the scaled scores of the lists, each times its weight; a document not in a list has 0 there.

    The result equals that of the stage :func:`linear` to the bit.
    """
    return AlignedLists.of(rankings).sum(weights)


def linear(*stages: Stage, weights: Sequence[float]) -> Sum:
    """``linear(a, b, weights=(0.4, 0.6))`` is ``0.4 * minmax(a) + 0.6 * minmax(b)``."""
    _check(len(stages), weights)
    return Sum(tuple(Weighted(minmax(stage), float(w)) for stage, w in zip(stages, weights, strict=True)))


@dataclass(frozen=True, eq=False)
class AlignedLists:
    """The lists of a query as a table, to try many weights quickly.

    ``docnos`` are in descending order, in which ties are broken; ``table`` has shape (lists, documents),
    with 0 for a document that is not in a list.
    """

    query: Query
    docnos: tuple[str, ...]
    table: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rankings: Sequence[Ranking], *, scale: bool = True) -> AlignedLists:
        """The lists of one query, with their scores scaled to [0, 1] or (``scale`` False) as they are."""
        query = check_query(rankings)
        docnos = sorted({docno for ranking in rankings for docno in ranking.docnos}, reverse=True)
        column = {docno: i for i, docno in enumerate(docnos)}
        table = np.zeros((len(rankings), len(docnos)), np.float32)
        for row, ranking in zip(table, map(scale_scores, rankings) if scale else rankings, strict=True):
            row[[column[docno] for docno in ranking.docnos]] = ranking.scores
        return cls(query, tuple(docnos), table)

    def sum(self, weights: Sequence[float], depth: int | None = None) -> Ranking:
        """The ranking by the weighted sum, cut to ``depth``."""
        _check(len(self.table), weights)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked below
            products = np.array(weights, np.float32)[:, None] * self.table  # float32, like Weighted
            totals = products.astype(np.float64).sum(axis=0).astype(np.float32) + np.float32(0.0)
        if not np.isfinite(totals).all():
            raise ValueError(f"query {self.query.qid}: weights of {tuple(weights)} make scores too large")
        order = np.argsort(-totals, kind="stable")[:depth]
        return Ranking.presorted(self.query, tuple(self.docnos[i] for i in order), totals[order])


def _check(lists: int, weights: Sequence[float]) -> None:
    if not lists:
        raise ValueError("there is no list to fuse")
    if len(weights) != lists:
        raise ValueError(f"{len(weights)} weights for {lists} lists")
