"""Fusion by ranks alone: scales of scores need not agree (Cormack, Clarke, Büttcher, SIGIR 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from telerank.fuse.lists import check_stages, placed, rank_in, shared_query, side_by_side
from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking

K = 60.0  # the paper's


def reciprocal(rankings: Sequence[Ranking], k: float = K) -> Ranking:
    """The sum of 1 / (k + rank) over the lists; a list that lacks a document adds nothing.

    Raises
    ------
    ValueError
        where there is no list, they answer different queries, or ``k`` is negative.
    """
    _check(k)
    query = shared_query(rankings)
    totals: dict[str, float] = {}
    for ranking in rankings:
        for rank, docno in enumerate(ranking.docnos, 1):
            totals[docno] = totals.get(docno, 0.0) + 1.0 / (k + rank)
    return Ranking.ranked(query, tuple(totals), list(totals.values()))


@dataclass(frozen=True)
class ReciprocalRank(Stage):
    """What the stages find, by the sum of 1 / (k + rank)."""

    stages: tuple[Stage, ...]
    k: float = K

    def __post_init__(self) -> None:
        check_stages(self.stages)
        _check(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (reciprocal(rankings, self.k) for rankings in side_by_side(self.stages, stream))

    def after(self, first: Stage) -> Stage:
        return ReciprocalRank(tuple(stage.after(first) for stage in self.stages), self.k)

    def explain(self, query: Query, docno: str) -> Explanation:
        lists = [stage.search(query) for stage in self.stages]
        parts = []
        for stage, ranking in zip(self.stages, lists, strict=True):
            rank = rank_in(ranking, docno)
            parts.append(placed(stage, query, docno, rank, 1.0 / (self.k + rank) if rank else 0.0))
        fused = dict(reciprocal(lists, self.k))
        return Explanation(fused[docno], f"sum of 1 / ({self.k:g} + rank)", tuple(parts))


def rrf(*stages: Stage, k: float = K) -> ReciprocalRank:
    """The stages' lists, fused by rank: ``rrf(bm25 % 1000, dense % 1000)``."""
    return ReciprocalRank(stages, k)


def _check(k: float) -> None:
    if not 0 <= k < math.inf:
        raise ValueError(f"k must be a number of at least 0, got {k!r}")
