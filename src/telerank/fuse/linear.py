"""Weighted sums of scaled scores (Piaf report, equation 19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telerank.fuse.lists import shared_query
from telerank.fuse.minmax import minmax, scaled
from telerank.stage import Stage, Sum, Weighted
from telerank.types import Query, Ranking


def weighted(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """The sum of the lists' scaled scores, each times its weight; what a list lacks counts 0 there.

    To the bit what the stage :func:`linear` gives.

    Raises
    ------
    ValueError
        where there is no list, they answer different queries, or there are not as many weights.
    """
    return Aligned.of(rankings).summed(weights)


def linear(*stages: Stage, weights: Sequence[float]) -> Sum:
    """``linear(a, b, weights=(0.4, 0.6))`` is ``0.4 * minmax(a) + 0.6 * minmax(b)``.

    Raises
    ------
    ValueError
        where there is no stage, or there are not as many weights.
    """
    _check(len(stages), weights)
    return Sum(tuple(Weighted(minmax(one), float(w)) for one, w in zip(stages, weights, strict=True)))


@dataclass(frozen=True, eq=False)
class Aligned:
    """Lists of one query over all their documents, so that many weights are tried quickly.

    ``docnos`` are descending, as ties are broken; ``table`` is (lists, documents), 0 where a list lacks one.
    """

    query: Query
    docnos: tuple[str, ...]
    table: npt.NDArray[np.float32]

    @classmethod
    def of(cls, rankings: Sequence[Ranking]) -> Aligned:
        query = shared_query(rankings)
        docnos = sorted({docno for ranking in rankings for docno in ranking.docnos}, reverse=True)
        place = {docno: i for i, docno in enumerate(docnos)}
        table = np.zeros((len(rankings), len(docnos)), np.float32)
        for row, ranking in zip(table, map(scaled, rankings), strict=True):
            row[[place[docno] for docno in ranking.docnos]] = ranking.scores
        return cls(query, tuple(docnos), table)

    def summed(self, weights: Sequence[float], depth: int | None = None) -> Ranking:
        """The ranking under these weights, cut to ``depth``."""
        _check(len(self.table), weights)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
            products = np.array(weights, np.float32)[:, None] * self.table  # float32, as Weighted makes them
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
