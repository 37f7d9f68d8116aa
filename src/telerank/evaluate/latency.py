"""How long one query takes: what the user of a search waits for, not what a batch costs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from telerank.stage import Stage
from telerank.types import Progress, Query, silent

_WARM_UP = 5  # queries that are asked before: kernels are compiled, files are read


@dataclass(frozen=True)
class Latency:
    """Milliseconds of wall time a query, asked one after the other."""

    mean: float
    median: float
    p99: float
    queries: int


def latency(
    stage: Stage, queries: Sequence[Query], *, sample: int = 100, seed: int = 0, progress: Progress = silent
) -> Latency:
    """The time of ``sample`` of the queries, drawn by ``seed``, after a few that are not counted.

    Raises
    ------
    ValueError
        where there is no query.
    """
    if not queries:
        raise ValueError("there is no query to time")
    asked = random.Random(seed).sample(list(queries), min(sample, len(queries)))
    for query in asked[:_WARM_UP]:
        stage.search(query)
    times = []
    for done, query in enumerate(asked, 1):
        began = time.perf_counter()
        stage.search(query)
        times.append(1000.0 * (time.perf_counter() - began))
        progress("timing", done, len(asked))
    values = np.array(times)
    return Latency(
        float(values.mean()), float(np.median(values)), float(np.percentile(values, 99)), len(asked)
    )
