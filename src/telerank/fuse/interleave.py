"""In turns: the first of each list, the second of each, … (Zhan et al. 2020, RepBERT, equation 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np

from telerank.fuse.lists import check_stages, placed, rank_in, shared_query, side_by_side
from telerank.stage import Stage, check_depth
from telerank.types import Explanation, Query, Ranking, Scores

DEPTH = 1000  # the paper's: of each list, and of the fused one


def interleaved(rankings: Sequence[Ranking], depth: int | None = DEPTH) -> Ranking:
    """The lists in turns, each document where it first comes, cut to ``depth`` (None: uncut).

    A list that has ended is passed over. Scores are 1 / rank: they say the order, do not depend on the
    depth, and are above 0, which a document that is lacking counts in a sum.

    Raises
    ------
    ValueError
        where there is no list, or they answer different queries.
    """
    turns = zip_longest(*(ranking.docnos[:depth] for ranking in rankings))
    firsts = dict.fromkeys(docno for turn in turns for docno in turn if docno is not None)
    docnos = tuple(islice(firsts, depth))
    return Ranking.presorted(shared_query(rankings), docnos, _by_rank(len(docnos)))


@dataclass(frozen=True)
class Interleave(Stage):
    """What the stages find, in turns; ``depth`` None keeps all of it."""

    stages: tuple[Stage, ...]
    depth: int | None = DEPTH

    def __post_init__(self) -> None:
        check_stages(self.stages)
        if self.depth is not None:
            check_depth(self.depth)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (interleaved(rankings, self.depth) for rankings in side_by_side(self.stages, stream))

    def limit(self, k: int) -> Stage:
        # the first k come from the first k of each list: any one of them has k documents by then
        depth = k if self.depth is None else min(k, self.depth)
        return Interleave(tuple(stage.limit(depth) for stage in self.stages), depth)

    def after(self, first: Stage) -> Stage:
        return Interleave(tuple(stage.after(first) for stage in self.stages), self.depth)

    def explain(self, query: Query, docno: str) -> Explanation:
        lists = [stage.search(query) for stage in self.stages]
        rank = rank_in(interleaved(lists, self.depth), docno)
        if rank is None:
            raise KeyError(docno)
        parts = tuple(
            placed(stage, query, docno, place, float(place or 0))
            for stage, place in zip(self.stages, (rank_in(one, docno) for one in lists), strict=True)
        )
        return Explanation(float(np.float32(1.0 / rank)), f"1 / rank {rank} of the lists in turns", parts)


def interleave(*stages: Stage, depth: int | None = DEPTH) -> Interleave:
    """The stages’ lists in turns; ``interleave(a, b)`` begins with ``a``, ``interleave(b, a)`` with ``b``."""
    return Interleave(stages, depth)


def _by_rank(count: int) -> Scores:
    """1 / rank: float32 tells them apart up to rank 5 million."""
    return (1.0 / np.arange(1, count + 1)).astype(np.float32)
