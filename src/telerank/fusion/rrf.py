"""Reciprocal rank fusion: only ranks count (Cormack, Clarke, Büttcher, SIGIR 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from telerank.expressions import call_text
from telerank.fusion.lists import check_query, check_stages, explain_rank, find_rank, run_stages
from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking

K = 60.0  # the paper's


def sum_reciprocal_ranks(rankings: Sequence[Ranking], k: float = K) -> Ranking:
    """Sum 1 / (k + rank) over the lists that hold a document."""
    _check(k)
    query = check_query(rankings)
    totals: dict[str, float] = {}
    for ranking in rankings:
        for rank, docno in enumerate(ranking.docnos, 1):
            totals[docno] = totals.get(docno, 0.0) + 1.0 / (k + rank)
    return Ranking.ranked(query, tuple(totals), list(totals.values()))


@dataclass(frozen=True, repr=False)
class ReciprocalRank(Stage):
    """The documents of the stages, ordered by the sum of 1 / (k + rank)."""

    stages: tuple[Stage, ...]
    k: float = K

    def __post_init__(self) -> None:
        check_stages(self.stages)
        _check(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (sum_reciprocal_ranks(rankings, self.k) for rankings in run_stages(self.stages, stream))

    def after(self, first: Stage) -> Stage:
        return ReciprocalRank(tuple(stage.after(first) for stage in self.stages), self.k)

    def explanation(self, query: Query, docno: str) -> Explanation:
        lists = [stage.search(query) for stage in self.stages]
        parts = []
        for stage, ranking in zip(self.stages, lists, strict=True):
            rank = find_rank(ranking, docno)
            parts.append(explain_rank(stage, query, docno, rank, 1.0 / (self.k + rank) if rank else 0.0))
        fused = dict(sum_reciprocal_ranks(lists, self.k))
        return Explanation(fused[docno], f"sum of 1 / ({self.k:g} + rank)", tuple(parts))

    @property
    def text(self) -> str:
        return call_text("rrf", *(stage.text for stage in self.stages), k=self.k)


def rrf(*stages: Stage, k: float = K) -> ReciprocalRank:
    """Fuse the lists of the stages by rank: ``rrf(bm25 % 1000, dense % 1000)``."""
    return ReciprocalRank(stages, k)


def _check(k: float) -> None:
    if not 0 <= k < math.inf:
        raise ValueError(f"k must be a number of at least 0, got {k!r}")
