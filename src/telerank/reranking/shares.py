"""Re-ranking by several processes that ``torchrun`` has started, a GPU each: every one takes a share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import Any

from torch import distributed

from telerank.reranking.stage import CrossReranker
from telerank.types import Ranking

_ROUND = 256  # rankings of each process that are exchanged together


def rerank_shares(stage: CrossReranker, rankings: Iterable[Ranking]) -> Iterator[Ranking]:
    """The rankings of ``stage``, in order, in each of the processes; they must all read them to the end.

    Process r of n scores rankings r, r + n, …; the counts of what was scored and cut are then those of all.
    """
    rank, size = distributed.get_rank(), distributed.get_world_size()
    own, counts = stage(islice(rankings, rank, None, size)), stage.scorer.counts
    while True:
        scored = list(islice(own, _ROUND))
        parts: list[list[Ranking]] = _gather(scored, size)
        yield from (ranking for row in zip_longest(*parts) for ranking in row if ranking is not None)
        if max(map(len, parts)) < _ROUND:
            break
    every = _gather((counts.pairs, counts.cut, counts.cut_pairs), size)
    counts.pairs, counts.cut, counts.cut_pairs = (sum(numbers) for numbers in zip(*every, strict=True))


def _gather(value: Any, size: int) -> list[Any]:
    values: list[Any] = [None] * size
    distributed.all_gather_object(values, value)
    return values
