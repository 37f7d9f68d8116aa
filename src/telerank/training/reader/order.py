"""The order in which windows are learned from: epochs of all sets by weight, in batches of similar
lengths.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
_POOL = 50  # batches whose windows are sorted by length together


class WindowOrder:
    """Batch 0, 1, 2 … of ``size`` rows each; a function of the seed and the number, so that training resumes.

    An epoch has each window of a set ``weight`` times: those of a weight of 1.5 once or twice, all of
    them once before any comes twice. Within a stretch of 50 batches windows of similar lengths share a batch,
    which saves padding; the order of the batches is random.
    """

    def __init__(
        self, lengths: Rows, sets: Rows, weights: tuple[float, ...], *, size: int, seed: int
    ) -> None:
        self._lengths, self._size, self._seed = lengths, size, seed
        self._parts = [
            (rows := np.flatnonzero(sets == number), round(weight * len(rows)))
            for number, weight in enumerate(weights)
        ]
        self.epoch_length = sum(count for _, count in self._parts)
        self._order = lru_cache(maxsize=2)(self._compute)

    def __getitem__(self, number: int) -> Rows:
        """The rows of a batch."""
        begin = number * self._size
        rows = []
        for position in range(begin, begin + self._size):
            epoch, inside = divmod(position, self.epoch_length)
            rows.append(self._order(epoch)[inside])
        return np.array(rows, np.int64)

    def _compute(self, epoch: int) -> Rows:
        """The rows of an epoch; its batches begin where those of the epoch before end."""
        random = np.random.default_rng((self._seed, epoch))
        drawn = random.permutation(
            np.concatenate([self._draw(rows, count, epoch) for rows, count in self._parts])
        )
        first = -epoch * self.epoch_length % self._size
        blocks = [drawn[:first]]
        pool = _POOL * self._size
        for begin in range(first, len(drawn), pool):
            stretch = drawn[begin : begin + pool]
            ordered = stretch[np.argsort(self._lengths[stretch], kind="stable")]
            whole = len(ordered) // self._size
            batches = [ordered[n * self._size : (n + 1) * self._size] for n in range(whole)]
            blocks += [batches[n] for n in random.permutation(whole)]
            blocks.append(ordered[whole * self._size :])  # only the last stretch has such
        return np.concatenate(blocks)

    def _draw(self, rows: Rows, count: int, epoch: int) -> Rows:
        """``count`` rows of a set: the next of an endless sequence of its permutations, epoch after epoch."""
        if not count:
            return rows[:0]
        begin, own = epoch * count, []
        for position in range(begin // len(rows), -(-(begin + count) // len(rows))):
            shuffled = np.random.default_rng((self._seed, 1, position)).permutation(rows)
            low = max(0, begin - position * len(rows))
            own.append(shuffled[low : begin + count - position * len(rows)])
        return np.concatenate(own)
