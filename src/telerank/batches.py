"""Batches of texts or pairs of similar length, bounded by their number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt


def batch_by_length(
    lengths: Sequence[int] | npt.NDArray[np.int64], budget: int, *, shortest: float = 0
) -> Iterator[list[int]]:
    """Group positions into batches whose longest length times size is at most ``budget`` tokens.

    A batch holds at least one position, and none shorter than ``shortest`` times its longest. The longest
    come first, so that insufficient memory shows at once.
    """
    descending = -np.asarray(lengths, np.int64)
    order = np.argsort(descending, kind="stable")
    descending, start = descending[order], 0
    while start < len(order):
        longest = -int(descending[start])
        size = max(1, budget // max(1, longest))
        if shortest:
            size = min(size, int(np.searchsorted(descending, -longest * shortest, side="right")) - start)
        yield order[start : start + size].tolist()
        start += size
