"""``tune_fusion``: choose the weights of a fusion by cross-validation."""

from __future__ import annotations

from telerank.errors import CollectionError
from telerank.evaluate.tune import Folds
from telerank.fuse.tuning import FusionTuning, WeightGrid, tune_weights
from telerank.show.progress import show_progress
from telerank.types import Progress
from telerank.verbs.judge import JudgedRuns


def tune_fusion(
    runs: JudgedRuns,
    measure: str = "nDCG@10",
    *,
    grid: WeightGrid = WeightGrid(),  # noqa: B008 — frozen
    folds: Folds = Folds(),  # noqa: B008 — frozen
    progress: Progress | None = None,
) -> FusionTuning:
    """Tune the weights of the sum of the runs' min-max scaled scores over a grid.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, no query of them is judged, the step does not divide 1, the grid
        is too large, or there are fewer queries than folds.
    MeasureError
        If the measure's name is invalid, or there are several measures.
    """
    runs.require_two("fuse")
    try:
        grid.points(len(runs.runs))
    except ValueError as error:
        raise CollectionError(f"step: {error}") from error
    rankings = {name: runs.read(name) for name in runs.runs}
    try:
        with show_progress(progress) as shown:
            tuning = tune_weights(rankings, runs.qrels, measure, grid=grid, folds=folds, progress=shown)
    except ValueError as error:  # too few queries for the folds, and similar
        raise CollectionError(str(error)) from error
    if not tuning.answered:
        raise CollectionError(f"no query of the runs is judged in {runs.source}")
    return tuning
