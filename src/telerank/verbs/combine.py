"""``combine``: fuse every ordered pair of runs, and measure what each adds to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telerank.fuse.interleave import DEPTH
from telerank.fuse.matrix import CombinationMatrix, combine_runs
from telerank.fuse.methods import Fusion
from telerank.show.progress import show_progress
from telerank.types import Progress
from telerank.verbs.judge import JudgedRuns

MEASURES = "RR@10 R@1000"


def combine(
    runs: JudgedRuns,
    measures: str | Sequence[str] = MEASURES,
    *,
    fusion: Fusion = Fusion("interleave", depth=DEPTH),  # noqa: B008 — frozen
    level: float = 0.05,
    progress: Progress | None = None,
) -> CombinationMatrix:
    """Fuse all ordered pairs of runs; compare each pair with its first run.

    A change is significant if its p, after Holm's correction over all pairs and measures, is below ``level``.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, or the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid.
    """
    runs.require_two("combine")
    rankings = {name: runs.read(name) for name in runs.runs}
    with show_progress(progress) as shown:
        matrix = combine_runs(rankings, runs.qrels, measures, fusion=fusion, progress=shown)
    for name in runs.runs:
        judged = matrix.queries - matrix.missing[name]
        runs.check_judged(name, judged=judged, first=next(iter(matrix.unjudged[name]), None))
    return replace(matrix, level=level)
