"""Batches of texts or pairs of similar length, bounded by their number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


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


@dataclass(frozen=True)
class WindowLimits:
    """How many items are in memory together at most: ``size`` in all, items, and groups.

    Windows of ``items`` double up to ``most_items``, if that is more, so that the first results come early.
    """

    size: float
    items: int
    groups: int
    most_items: int = 0

    def cut(
        self, groups: Iterable[Iterable[T]], size_of: Callable[[T], int]
    ) -> Iterator[tuple[list[T], list[int]]]:
        """Items in windows, and the ends of the groups in each; a group may continue in the next window."""
        items: list[T] = []
        ends: list[int] = []
        size, most = 0, self.items
        for group in groups:
            for item in group:
                items.append(item)
                size += size_of(item)
                if size >= self.size or len(items) == most:
                    yield items, ends
                    items, ends, size = [], [], 0
                    most = max(most, min(2 * most, self.most_items))
            ends.append(len(items))
            if len(ends) == self.groups:
                yield items, ends
                items, ends, size = [], [], 0
        if ends:
            yield items, ends
