"""Weights of a fusion: a grid over all mixtures, and what the best of them is worth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np

from telerank.evaluate.measures import Evaluation, measure, parse_measures
from telerank.evaluate.tune import Folds, Objective, TuneResult, tune
from telerank.fuse.joined import joined
from telerank.fuse.linear import Aligned
from telerank.types import Progress, Qrels, Query, Ranking, silent

Weights: TypeAlias = tuple[float, ...]

_MOST = 100_000  # mixtures of a grid: more would take days
_CUTOFF = re.compile(r"@(\d+)$")


def simplex(runs: int, step: str | float | Fraction = "0.1") -> tuple[Weights, ...]:
    """Every mixture of so many runs whose weights are multiples of ``step`` and sum to 1, once each.

    In whole numbers of steps, n = 1 / step, so that no point is lost to rounding: C(n + runs - 1, runs - 1)
    of them, the first weight rising. A step is 1 / n; it may be written ``1/3``. All other positive
    weights rank as one of these or between them, since a common factor changes no order.

    Raises
    ------
    ValueError
        where there is no run, 1 is no multiple of the step, or there are more than 100,000 mixtures.
    """
    if runs < 1:
        raise ValueError(f"a mixture is of one run or more, got {runs}")
    n = _steps(step)
    if (count := math.comb(n + runs - 1, runs - 1)) > _MOST:
        raise ValueError(f"{count:,} mixtures of {runs} runs by steps of {step}: take a larger step")
    bars = combinations(range(n + runs - 1), runs - 1)  # runs - 1 bars among n stars
    walls = ((-1, *one, n + runs - 1) for one in bars)
    return tuple(tuple((right - left - 1) / n for left, right in pairwise(one)) for one in walls)


@dataclass(frozen=True, eq=False)
class FusionTuning:
    """Which weights were chosen for a weighted sum, and what they are worth by ``measure``.

    ``result`` is the tuning itself; its settings are weights. ``alone`` has each run's own values on the
    same queries. ``lacking`` counts, for each run, the queries that only others answer; ``answered`` of
    the judged queries some run answers, and ``unjudged`` queries of the runs are not judged.
    """

    measure: str
    result: TuneResult[Weights]
    alone: tuple[Evaluation, ...]
    lacking: tuple[int, ...]
    answered: int
    unjudged: int

    @property
    def in_sample(self) -> float:
        """The mean of the best weights on the queries that chose them, which flatters them."""
        return self.result.best_dev

    @property
    def held_out(self) -> float:
        """The honest value: the mean of all queries, each under weights that the other folds chose."""
        return self.result.held_out

    @property
    def oracle(self) -> float:
        """The mean of all queries, each answered under the weights best for itself.

        No way to choose weights from this grid, be it by query, can reach more.
        """
        return float(np.mean([values.max() for values in self.result.table.values()]))


def tune_fusion(
    runs: Sequence[Iterable[Ranking]],
    qrels: Qrels,
    measure_name: str,
    *,
    step: str | float | Fraction = "0.1",
    folds: Folds = Folds(),  # noqa: B008 — frozen
    progress: Progress = silent,
) -> FusionTuning:
    """Try every mixture of the runs' scaled scores, cross-validated over the queries of the qrels.

    Runs are taken as they come: cut them before. A query that a run lacks has nothing from it; one that no
    run answers counts 0.

    Raises
    ------
    MeasureError
        where the measure's name is none, or there are several.
    ValueError
        as :func:`simplex` does, or where there are too few queries for the folds.
    """
    grid = simplex(len(runs), step)
    (name, *_) = parse_measures(measure_name)
    lists: dict[str, Aligned] = {}
    own: list[list[Ranking]] = [[] for _ in runs]
    lacking = [0] * len(runs)
    unjudged, depth = 0, _depth(name)
    for done, rankings in enumerate(joined(runs), 1):
        progress("reading", done, None)
        for i, ranking in enumerate(rankings):
            lacking[i] += not len(ranking)
        unjudged += rankings[0].query.qid not in qrels
        if rankings[0].query.qid in qrels:
            lists[rankings[0].query.qid] = Aligned.of(rankings)
            for mine, ranking in zip(own, rankings, strict=True):
                mine.append(ranking.cut(depth) if depth else ranking)

    def run(weights: Weights, queries: Sequence[Query]) -> Iterator[Ranking]:
        return (lists[one.qid].summed(weights, depth) for one in queries if one.qid in lists)

    objective = Objective([Query(qid, "") for qid in qrels], qrels, measure_name)
    result = tune(grid, run, objective, held_out=folds, progress=progress)
    alone = tuple(measure(mine, qrels, name) for mine in own)
    return FusionTuning(name, result, alone, tuple(lacking), len(lists), unjudged)


def _steps(step: str | float | Fraction) -> int:
    """How many steps make 1."""
    try:
        size = Fraction(str(step))
        n = 1 / size
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"a step is a number such as 0.1 or 1/3, got {step!r}") from error
    if n < 1 or n.denominator != 1:
        below = max(1, math.ceil(n)) if n > 0 else 10
        raise ValueError(f"1 must be a multiple of the step, got {step}; 1/{below} would do")
    return int(n)


def _depth(name: str) -> int | None:
    """As deep as the measure looks; all of a list where it has no cutoff."""
    cutoff = _CUTOFF.search(name)
    return int(cutoff[1]) if cutoff else None
