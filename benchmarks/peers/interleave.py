"""Times of several engines, taken by turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from peers.engine import Found


@dataclass(frozen=True)
class Times:
    """Milliseconds of a query on one core, each query's being its median over the rounds."""

    median: float
    p99: float
    mean: float

    def __str__(self) -> str:
        return f"{self.median:7.3f} {self.p99:7.3f} {self.mean:7.3f}"


def interleaved(
    searches: Mapping[str, Callable[[], Found]], *, warm_up: int = 20, rounds: int = 5
) -> dict[str, Times]:
    """Warm-up rounds of each first (a JVM compiles what runs often), then rounds in which all take turns."""
    for search in searches.values():
        for _ in range(warm_up):
            search()
    taken: dict[str, list[np.ndarray]] = {name: [] for name in searches}
    for _ in range(rounds):
        for name, search in searches.items():
            taken[name].append(search().times)
    return {name: _times(np.median(np.array(times), axis=0) / 1e6) for name, times in taken.items()}


def _times(milliseconds: np.ndarray) -> Times:
    return Times(
        float(np.median(milliseconds)), float(np.percentile(milliseconds, 99)), float(milliseconds.mean())
    )
