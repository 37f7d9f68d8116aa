"""Tune the weights of a fusion over a grid, by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from telerank.errors import ArgumentError, agree, count_noun, known_names
from telerank.evaluation.compare import compare_evaluations, describe_unjudged
from telerank.evaluation.measures import (
    Evaluation,
    MeasureNames,
    find_cutoff,
    measure,
    parse_measures,
    require_means,
)
from telerank.evaluation.tune import Folds, Objective, TuneResult, tune
from telerank.fusion.lists import AlignedLists, join_runs
from telerank.show.plots import mixture_plot
from telerank.show.report import Report
from telerank.show.tables import Cell, Table, show_p
from telerank.types import Progress, Qrels, Query, Ranking, silent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Weights: TypeAlias = tuple[float, ...]
Step: TypeAlias = str | float | Fraction

_MOST = 100_000  # points of a grid: more would take days
_SHOWN = 10  # weights in the table of a result
_FUSED = "fused, held out"
_NOTES = (
    "In sample: the best weights on all queries, measured on the same queries.",
    "Held out: each query under weights that the other folds chose.",
    "Oracle: each query under the weights best for itself, an upper bound of any choice.",
    "Difference: with its 95% bootstrap interval; p of a paired t-test with Holm's correction.",
)


def simplex(runs: int, step: Step = "0.1") -> tuple[Weights, ...]:
    """All weights of ``runs`` runs that are multiples of ``step`` and sum to 1.

    They are counted in whole steps, n = 1 / step, so that rounding loses no point: there are
    C(n + runs - 1, runs - 1), the first weight rising. ``step`` may be written ``1/3``. Other positive
    weights give the order of one of these or lie between them, because a common factor keeps the order.
    Raises ValueError if there is no run, 1 is not a multiple of the step, or there are over 100,000 points.
    """
    n = _steps(step)
    _check_size(runs, math.comb(n + runs - 1, runs - 1) if runs > 0 else 0, step)
    bars = combinations(range(n + runs - 1), runs - 1)  # runs - 1 bars among n stars
    walls = ((-1, *chosen, n + runs - 1) for chosen in bars)
    return tuple(tuple((right - left - 1) / n for left, right in pairwise(ends)) for ends in walls)


def square(runs: int, step: Step = "0.1") -> tuple[Weights, ...]:
    """All weights of ``runs`` runs of which each is 0, ``step``, 2 ``step``, … 1; not all of them 0.

    There are (n + 1) ** runs - 1 with n = 1 / step, the first weight rising.
    """
    n = _steps(step)
    _check_size(runs, (n + 1) ** runs - 1, step)
    return tuple(tuple(i / n for i in point) for point in product(range(n + 1), repeat=runs) if any(point))


# The grids by name.
GRIDS: Mapping[str, Callable[[int, Step], tuple[Weights, ...]]] = {"simplex": simplex, "square": square}


@dataclass(frozen=True)
class WeightGrid:
    """A grid of weights, :func:`simplex` or :func:`square`, by its name and step."""

    name: str = "simplex"
    step: Step = "0.1"

    def __post_init__(self) -> None:
        if self.name not in GRIDS:
            raise ArgumentError(f"there is no grid {self.name!r}; {known_names(GRIDS, self.name)}")

    def points(self, runs: int) -> tuple[Weights, ...]:
        """The weights of a fusion of ``runs`` runs."""
        return GRIDS[self.name](runs, self.step)


@dataclass(frozen=True, eq=False)
class FusionTuning(Report):
    """The weights chosen for a weighted sum, and its values by ``measure``.

    The settings of ``result`` are weights. ``alone`` holds the evaluation of each run by name.
    ``lacking`` counts, for each run, the queries that are only in other runs. ``answered`` is the number
    of judged queries in any run, ``unjudged`` the number of queries of the runs that are not judged.
    """

    title: ClassVar[str] = "Fusion"
    measure: str
    result: TuneResult[Weights]
    alone: Mapping[str, Evaluation]
    lacking: Mapping[str, int]
    answered: int
    unjudged: int

    @property
    def in_sample(self) -> float:
        """The mean of the best weights on the queries that chose them: too optimistic."""
        return self.result.best_dev

    @property
    def held_out(self) -> float:
        """The mean of all queries, each under the weights that the other folds chose: the unbiased value."""
        return self.result.held_out

    @property
    def oracle(self) -> float:
        """The mean of all queries, each under the weights best for itself: an upper bound of any choice."""
        return float(np.mean([values.max() for values in self.result.table.values()]))

    def tables(self) -> list[Table]:
        """The best weights; each run alone, the tuned weights in sample and held out, the oracle."""
        result = self.result
        best = sorted(zip(result.settings, result.dev, strict=True), key=lambda pair: -pair[1])[:_SHOWN]
        weights = Table.of(
            (" + ".join(self.alone), self.measure),
            [[" + ".join(f"{w:.4g}" for w in weights), f"{mean:.4f}"] for weights, mean in best],
            caption=f"The best {len(best)} of {count_noun(len(result.settings), 'weight')}, in sample",
        )
        systems = {name: alone.select(result.evaluation.qids) for name, alone in self.alone.items()}
        systems[_FUSED] = result.evaluation
        comparison = compare_evaluations(systems, [*self.alone], measures=[self.measure])
        means = {name: evaluation.mean[self.measure] for name, evaluation in self.alone.items()}
        means["fused, in sample"] = self.in_sample
        rows: list[list[str | Cell]] = [[name, "", f"{mean:.4f}", "", ""] for name, mean in means.items()]
        for i, name in enumerate(self.alone):
            row = comparison.difference(_FUSED, name, self.measure)
            value = Cell(f"{self.held_out:.4f}" if i == 0 else "", strong=True)
            interval = f"{row.delta:+.4f} [{row.low:+.4f}, {row.high:+.4f}]"
            rows.append([_FUSED if i == 0 else "", name, value, interval, show_p(row.p_holm)])
        rows.append(["fused, oracle", "", f"{self.oracle:.4f}", "", ""])
        columns = ("", "against", self.measure, "difference", "p")
        return [weights, Table.of(columns, rows, caption="What fusion is worth", notes=_NOTES, left=2)]

    @property
    def remarks(self) -> list[str]:
        lines = [
            f"{name}: has no list for {count_noun(count, 'query')}: fused from the others"
            for name, count in self.lacking.items()
            if count
        ]
        judged = len(self.result.table)
        if missing := judged - self.answered:
            have, they = agree(missing, "has", "have"), agree(missing, "it counts", "they count")
            judged_queries = f"{missing} of {count_noun(judged, 'query')} of the qrels"
            lines.append(f"{judged_queries} {have} no list in any run: {they} 0")
        if self.unjudged:
            lines.append(describe_unjudged(self.unjudged))
        return lines

    def record(self) -> dict[str, Any]:
        result = self.result
        return {
            "measure": self.measure,
            "runs": [
                {"run": name, "mean": evaluation.mean[self.measure], "lacking": self.lacking[name]}
                for name, evaluation in self.alone.items()
            ],
            "weights": result.best,
            "in_sample": self.in_sample,
            "held_out": self.held_out,
            "oracle": self.oracle,
            "choices": [
                {"queries": len(fold), "weights": weights}
                for fold, weights in zip(result.folds, result.choices, strict=True)
            ],
            "grid": [
                {"weights": weights, "mean": mean}
                for weights, mean in zip(result.settings, result.dev, strict=True)
            ],
        }

    def plot(self) -> Figure:
        """Plot the means over the weights of two or three runs (see :func:`mixture_plot`)."""
        levels = {"held out": self.held_out, "oracle": self.oracle}
        points, means = self.result.settings, self.result.dev
        return mixture_plot(points, means, list(self.alone), measure=self.measure, levels=levels)


def tune_weights(
    runs: Mapping[str, Iterable[Ranking]],
    qrels: Qrels,
    measure_name: MeasureNames,
    *,
    grid: WeightGrid = WeightGrid(),
    folds: Folds = Folds(),  # noqa: B008 — frozen
    progress: Progress = silent,
) -> FusionTuning:
    """Choose the weights of the sum of the runs' scaled scores, cross-validated over the judged queries.

    Cut the runs before if needed. A query that a run lacks gets nothing from it; a query in no run counts 0.
    Raises MeasureError and ValueError as :func:`~telerank.evaluation.tune.tune` and for a wrong grid.
    """
    points = grid.points(len(runs))
    names = parse_measures(measure_name)
    name = names[0]
    require_means([name])
    lists: dict[str, AlignedLists] = {}
    own: dict[str, list[Ranking]] = {name: [] for name in runs}
    lacking = dict.fromkeys(runs, 0)
    unjudged, depth = 0, find_cutoff(name)
    for done, rankings in enumerate(join_runs(list(runs.values())), 1):
        progress("reading", done, None)
        qid = rankings[0].query.qid
        unjudged += qid not in qrels
        if qid in qrels:
            lists[qid] = AlignedLists.of(rankings)
        for run_name, ranking in zip(runs, rankings, strict=True):
            lacking[run_name] += not len(ranking)
            if qid in qrels:
                own[run_name].append(ranking.cut(depth) if depth else ranking)
    return FusionTuning(
        name,
        choose_weights(points, lists, qrels, " ".join(names), folds=folds, progress=progress),
        {run_name: measure(rankings, qrels, name) for run_name, rankings in own.items()},
        lacking,
        len(lists),
        unjudged,
    )


def choose_weights(
    points: Sequence[Weights],
    lists: Mapping[str, AlignedLists],
    qrels: Qrels,
    measure_name: str,
    *,
    folds: Folds = Folds(),  # noqa: B008 — frozen
    progress: Progress = silent,
) -> TuneResult[Weights]:
    """Choose among weights for the sum of aligned lists (by qid), cross-validated over the judged queries."""
    depth = find_cutoff(parse_measures(measure_name)[0])

    def run(weights: Weights, queries: Sequence[Query]) -> Iterator[Ranking]:
        return (lists[query.qid].sum(weights, depth) for query in queries if query.qid in lists)

    return tune(
        points,
        run,
        Objective([Query(qid, "") for qid in qrels], qrels, measure_name),
        held_out=folds,
        progress=progress,
    )


def _check_size(runs: int, points: int, step: Step) -> None:
    if runs < 1:
        raise ArgumentError(f"a fusion needs one run or more, got {runs}")
    if points > _MOST:
        raise ArgumentError(
            f"{points:,} weights of {count_noun(runs, 'run')} by steps of {step}: take a larger step"
        )


def _steps(step: Step) -> int:
    """The number of steps in 1."""
    try:
        size = Fraction(str(step))
        n = 1 / size
    except (ValueError, ZeroDivisionError) as error:
        raise ArgumentError(f"expected a step such as 0.1 or 1/3, got {step!r}") from error
    if n < 1 or n.denominator != 1:
        nearest = max(1, math.ceil(n)) if n > 0 else 10
        raise ArgumentError(f"1 must be a multiple of the step, got {step}; use 1/{nearest}")
    return int(n)
