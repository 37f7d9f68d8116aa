"""Interleave: the first of each list, the second of each, … (Zhan et al. 2020, RepBERT, equation 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np

from telerank.expressions import call_text
from telerank.fusion.lists import check_query, check_stages, explain_rank, find_rank, run_stages
from telerank.stage import Stage, check_depth
from telerank.types import Explanation, Query, Ranking, Scores

DEPTH = 1000  # the paper's depth, of each list and of the fused one


def interleave_rankings(rankings: Sequence[Ranking], depth: int | None = DEPTH) -> Ranking:
    """Take documents from the lists in turns, each at its first occurrence, cut to ``depth`` (None: uncut).

    A list that has ended is skipped. Scores are 1 / rank: they do not depend on the depth, and are above
    0, which is what a document that is not in a list counts in a sum.
    """
    turns = zip_longest(*(ranking.docnos[:depth] for ranking in rankings))
    firsts = dict.fromkeys(docno for turn in turns for docno in turn if docno is not None)
    docnos = tuple(islice(firsts, depth))
    return Ranking.presorted(check_query(rankings), docnos, _by_rank(len(docnos)))


@dataclass(frozen=True, repr=False)
class Interleave(Stage):
    """The lists of the stages in turns, cut to ``depth`` (None: uncut)."""

    stages: tuple[Stage, ...]
    depth: int | None = DEPTH

    def __post_init__(self) -> None:
        check_stages(self.stages)
        if self.depth is not None:
            check_depth(self.depth)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (interleave_rankings(rankings, self.depth) for rankings in run_stages(self.stages, stream))

    def limit(self, k: int) -> Stage:
        # the first k documents are among the first k of each list
        depth = k if self.depth is None else min(k, self.depth)
        return Interleave(tuple(stage.limit(depth) for stage in self.stages), depth)

    def after(self, first: Stage) -> Stage:
        return Interleave(tuple(stage.after(first) for stage in self.stages), self.depth)

    def explanation(self, query: Query, docno: str) -> Explanation:
        lists = [stage.search(query) for stage in self.stages]
        rank = find_rank(interleave_rankings(lists, self.depth), docno)
        if rank is None:
            raise KeyError(docno)
        ranks = [find_rank(ranking, docno) for ranking in lists]
        parts = tuple(
            explain_rank(stage, query, docno, own, float(own or 0))
            for stage, own in zip(self.stages, ranks, strict=True)
        )
        return Explanation(float(np.float32(1.0 / rank)), f"1 / rank {rank} of the lists in turns", parts)

    @property
    def text(self) -> str:
        depth = "none" if self.depth is None else self.depth
        return call_text("interleave", *(stage.text for stage in self.stages), depth=depth)


def interleave(*stages: Stage, depth: int | None = DEPTH) -> Interleave:
    """Interleave the lists of the stages: ``interleave(a, b)`` begins with ``a``."""
    return Interleave(stages, depth)


def _by_rank(count: int) -> Scores:
    """1 / rank: distinct in float32 up to rank 5 million."""
    return (1.0 / np.arange(1, count + 1)).astype(np.float32)
