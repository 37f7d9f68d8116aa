"""What is computed together: texts or pairs of like lengths, in batches bounded by tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def batch_by_length(lengths: Sequence[int], budget: int, *, shortest: float = 0) -> Iterator[list[int]]:
    """Places in batches; a batch's longest times its size is within the budget, or it holds one place.

    None is shorter than ``shortest`` of the longest in its batch. The longest come first, so that memory that
    does not suffice is found out at once.
    """
    order = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        size = max(1, budget // max(1, longest))
        batch = [place for place in order[start : start + size] if lengths[place] >= longest * shortest]
        yield batch
        start += len(batch)
