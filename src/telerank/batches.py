"""Batches of texts or pairs of similar length, bounded by their number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batch_by_length(lengths: Sequence[int], budget: int, *, shortest: float = 0) -> Iterator[list[int]]:
    """Group positions into batches whose longest length times size is at most ``budget`` tokens.

    A batch holds at least one position, and none shorter than ``shortest`` times its longest. The longest
    come first, so that insufficient memory shows at once.
    """
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        size = max(1, budget // max(1, longest))
        batch = [row for row in order[start : start + size] if lengths[row] >= longest * shortest]
        yield batch
        start += len(batch)
