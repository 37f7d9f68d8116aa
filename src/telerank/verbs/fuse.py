"""Fusing runs: into one run, with tuned weights, and all ordered pairs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge

from telerank.computing import Count
from telerank.errors import ArgumentError, CollectionError, count_noun
from telerank.evaluation.measures import MeasureNames
from telerank.evaluation.tune import Folds
from telerank.fusion.lists import Fusion, join_runs
from telerank.fusion.matrix import CombinationMatrix, combine_runs
from telerank.fusion.tuning import FusionTuning, WeightGrid, tune_weights
from telerank.parameters import Check, FoldCount, FoldSeed, Level, check_finite
from telerank.pipelines.run_files import LazyRun
from telerank.show.progress import show_progress
from telerank.types import ProgressSetting, Ranking
from telerank.verbs.judge import JudgedRuns, JudgmentSource, Runs, judge_runs, name_runs, read_rankings

Method: TypeAlias = Literal["interleave", "linear", "rrf"]
Grid: TypeAlias = Literal["simplex", "square"]
DEPTH = 1000
PAIR_MEASURES = "RR@10 R@1000"


def fuse(
    runs: Runs,
    method: Method = "rrf",
    *,
    weights: Sequence[float] = (),
    rrf_k: Annotated[float, Ge(0), Check(check_finite)] = 60.0,
    depth: Count = DEPTH,
    k: Count | None = None,
    progress: ProgressSetting = None,
) -> LazyRun:
    """Fuse runs query by query; a query that a run lacks is fused from the others.

    ``method`` is ``rrf`` (reciprocal ranks, with its constant ``rrf_k``), ``linear`` (min-max scaled scores,
    each times its weight; default: equal ``weights``), or ``interleave``. ``depth`` documents of each run
    are fused, and ``k`` kept (default: ``depth``). The rankings are computed when they are read or saved.
    The runs are read in parallel and need not fit in memory.

    >>> tr.fuse(["bm25.run", "dfr.run"]).save("fused.run")
    >>> tr.fuse({"bm25": run, "dense": other}, "linear", weights=[0.4, 0.6])

    Raises
    ------
    CollectionError
        If there are fewer than two runs, or the number of weights differs.
    ArgumentError
        If there are weights for another method than ``linear``.
    """
    fusion = Fusion(method, tuple(weights), k=rrf_k, depth=depth, keep=k)
    by_name = name_runs(runs)
    if len(by_name) < 2:
        raise CollectionError("there is nothing to fuse: give two runs or more")
    if fusion.method == "linear" and not fusion.weights:
        fusion = replace(fusion, weights=(1.0 / len(by_name),) * len(by_name))
    if len(fusion.weights) not in (0, len(by_name)):
        raise CollectionError(
            f"{count_noun(len(fusion.weights), 'weight')} for {count_noun(len(by_name), 'run')}"
        )
    lacking, queries = dict.fromkeys(by_name, 0), 0

    def compute() -> Iterator[Ranking]:
        nonlocal lacking, queries
        lacking = dict.fromkeys(by_name, 0)
        joined = join_runs([read_rankings(run) for run in by_name.values()])
        with show_progress(progress) as shown:
            for queries, rankings in enumerate(joined, 1):
                for name, ranking in zip(lacking, rankings, strict=True):
                    lacking[name] += not len(ranking)
                shown("fusing", queries, None)
                yield fusion(rankings)

    def settings() -> dict[str, object]:
        return {
            **asdict(fusion),
            "runs": [str(run) if isinstance(run, str | Path) else name for name, run in by_name.items()],
        }

    def describe() -> list[str]:
        some = {name: f"{count} of {queries} queries" for name, count in lacking.items() if count}
        return [f"{name}: has no list for {share}: fused from the others" for name, share in some.items()]

    return LazyRun(compute, settings, describe)


def tune_fusion(
    runs: JudgedRuns | Runs,
    measures: MeasureNames = "nDCG@10",
    *,
    qrels: JudgmentSource | None = None,
    grid: Grid = "simplex",
    step: str | float = "0.1",
    folds: FoldCount = 5,
    seed: FoldSeed = 0,
    progress: ProgressSetting = None,
) -> FusionTuning:
    """Tune the weights of the sum of the runs' min-max scaled scores over a grid, for one of ``measures``.

    ``runs`` are those that :func:`telerank.judge` returns, or what it takes, with ``qrels``. The weights are
    multiples of ``step``: on the ``simplex`` they sum to 1, on the ``square`` each is from 0 to 1. Each of
    the ``folds`` is measured under the weights that the others chose.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, no query of them is judged, the step does not divide 1, the grid
        is too large, or there are fewer queries than folds.
    MeasureError
        If the measure's name is invalid, or there are several measures.
    """
    runs = judge_runs(runs, qrels)
    weights = WeightGrid(grid, step)
    runs.require_two("fuse")
    try:
        weights.points(len(runs.runs))
    except ArgumentError as error:
        raise CollectionError(f"step: {error}") from error
    rankings = {name: runs.read(name) for name in runs.runs}
    try:
        with show_progress(progress) as shown:
            dealt = Folds(folds, seed)
            tuning = tune_weights(rankings, runs.qrels, measures, grid=weights, folds=dealt, progress=shown)
    except ArgumentError as error:  # too few queries for the folds, and similar
        raise CollectionError(str(error)) from error
    if not tuning.answered:
        raise CollectionError(f"no query of the runs is judged in {runs.source}")
    return tuning


def combine(
    runs: JudgedRuns | Runs,
    measures: MeasureNames = PAIR_MEASURES,
    *,
    qrels: JudgmentSource | None = None,
    method: Method = "interleave",
    depth: Count = DEPTH,
    level: Level = 0.05,
    progress: ProgressSetting = None,
) -> CombinationMatrix:
    """Fuse all ordered pairs of runs; compare each pair with its first run.

    ``runs`` and ``qrels`` are as for :func:`telerank.evaluate`, ``method`` and ``depth`` as for :func:`fuse`.
    A change is significant if its p, after Holm's correction over all pairs and measures, is below ``level``.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, or the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid.
    """
    runs, fusion = judge_runs(runs, qrels), Fusion(method, depth=depth)
    runs.require_two("combine")
    rankings = {name: runs.read(name) for name in runs.runs}
    with show_progress(progress) as shown:
        matrix = combine_runs(rankings, runs.qrels, measures, fusion=fusion, progress=shown)
    for name in runs.runs:
        runs.check_judged(
            name, judged=matrix.queries - matrix.missing[name], first=next(iter(matrix.unjudged[name]), None)
        )
    return replace(matrix, level=level)
