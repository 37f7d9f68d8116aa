"""Re-ranking by several processes that ``torchrun`` has started, a GPU each: every one takes a share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest

from telerank.reranking.stage import CrossReranker
from telerank.training.launched import working_together
from telerank.types import Ranking

_ROUND = 256  # rankings of each process that are exchanged together


def rerank_shares(stage: CrossReranker, rankings: Iterable[Ranking]) -> Iterator[Ranking]:
    """The rankings of ``stage``, in order, in each of the processes; they must all read them to the end.

    Process r of n scores rankings r, r + n, …; the counts of what was scored and cut are then those of all,
    and batches as large as fit into the memory of each. The error of one process is raised in all.
    """
    with working_together() as processes:
        own = stage(islice(rankings, processes.rank, None, processes.size))
        counts, room = stage.scorer.counts, stage.scorer.room
        longest = _ROUND
        while longest == _ROUND:
            scored = processes.each(lambda: list(islice(own, _ROUND)))
            parts = processes.gather_values(scored)
            yield from (ranking for row in zip_longest(*parts) for ranking in row if ranking is not None)
            longest = max(map(len, parts))
        every = processes.gather_values((counts.pairs, counts.cut, counts.cut_pairs))
        counts.pairs, counts.cut, counts.cut_pairs = (sum(numbers) for numbers in zip(*every, strict=True))
        room.take_least(processes.gather_values(room.tokens))
