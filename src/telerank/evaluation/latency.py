"""Latency: the wall time of single queries, not the throughput of a batch."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telerank.stage import Stage
from telerank.types import Progress, Query, silent

_WARM_UP = 5  # queries that run first and are not counted: kernels are compiled, files are read


@dataclass(frozen=True)
class Latency:
    """Milliseconds of wall time per query, one query after another."""

    mean: float
    median: float
    p99: float
    queries: int


def time_stage(
    stage: Stage, queries: Sequence[Query], *, sample: int = 100, seed: int = 0, progress: Progress = silent
) -> Latency:
    """Time a stage on ``sample`` queries drawn with ``seed``, after a few that are not counted.

    Raises ValueError if there is no query.
    """
    if not queries:
        raise ValueError("there is no query to time")
    drawn = random.Random(seed).sample(list(queries), min(sample, len(queries)))
    for query in drawn[:_WARM_UP]:
        stage.search(query)
    times = []
    for done, query in enumerate(drawn, 1):
        start = time.perf_counter()
        stage.search(query)
        times.append(1000.0 * (time.perf_counter() - start))
        progress("timing", done, len(drawn))
    values = np.array(times)
    return Latency(
        float(values.mean()), float(np.median(values)), float(np.percentile(values, 99)), len(drawn)
    )
