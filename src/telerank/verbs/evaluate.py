"""``evaluate`` and ``compare``: measures of runs, in the mean, per query and by depth, and significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from telerank.errors import CollectionError
from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import (
    Evaluation,
    MeasureNames,
    expand_measures,
    measure,
    parse_measures,
    require_means,
)
from telerank.evaluation.report import depth_table, describe_gaps, means_table, query_table
from telerank.parameters import Flags, Help, Level, Measures, RelevanceLevel
from telerank.show.plots import line_plot
from telerank.show.progress import show_progress
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import ProgressSetting
from telerank.verbs.judge import JudgedRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RunEvaluations", "compare", "evaluate", "expand_measures", "measure_runs", "parse_measures"]

MEASURES = "RR@10 R@1000 AP nDCG@10 P@1"
MEASURES_BY_DEPTH = "R AP"
Baselines = Annotated[
    Sequence[str | Path],
    Flags("--baseline", "-b"),
    Help("One of the runs, by file or name; repeat for several. Default: the first."),
]


@dataclass(frozen=True, eq=False)
class RunEvaluations(Report):
    """The evaluations of runs by name.

    By depth, ``expanded`` holds the names of each measure at each of ``depths``. With ``per_query`` the
    report shows the values of each query too.
    """

    title: ClassVar[str] = "Evaluation"
    evaluations: Mapping[str, Evaluation]
    source: str
    depths: tuple[int, ...] = ()
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    per_query: bool = False

    @property
    def queries(self) -> int:
        return len(next(iter(self.evaluations.values())).qids)

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """``curves[run][measure]``: the mean at each depth."""
        return {
            run: {family: [evaluation.mean[name] for name in cut] for family, cut in self.expanded.items()}
            for run, evaluation in self.evaluations.items()
        }

    def tables(self) -> list[Table]:
        caption = f"Means over {self.queries} queries"
        means = (
            depth_table(self.curves, self.depths, caption=caption)
            if self.depths
            else means_table(self.evaluations, caption=caption)
        )
        return [query_table(self.evaluations), means] if self.per_query else [means]

    @property
    def remarks(self) -> list[str]:
        return describe_gaps(self.evaluations)

    def record(self) -> dict[str, Any]:
        depths = {"depths": self.depths} if self.depths else {}
        runs = [self._record(name, evaluation) for name, evaluation in self.evaluations.items()]
        return {"qrels": self.source, "queries": self.queries, **depths, "runs": runs}

    def _record(self, name: str, evaluation: Evaluation) -> dict[str, Any]:
        values = {"by_depth": self.curves[name]} if self.depths else {"mean": evaluation.mean}
        by_measure = {measure_name: evaluation.of(measure_name) for measure_name in evaluation.measures}
        per_query = {
            qid: {measure_name: own[qid] for measure_name, own in by_measure.items()}
            for qid in (evaluation.qids if self.per_query else ())
        }
        return {
            "run": name,
            **values,
            "missing": evaluation.missing,
            "unanswerable": evaluation.unanswerable,
            "unjudged": evaluation.unjudged,
            **({"per_query": per_query} if self.per_query else {}),
        }

    def plot(self) -> Figure:
        """Plot each measure by depth, a line for each run."""
        panels = {family: {run: own[family] for run, own in self.curves.items()} for family in self.expanded}
        return line_plot(panels, self.depths)


def evaluate(
    runs: JudgedRuns,
    measures: MeasureNames | None = None,
    *,
    depths: Sequence[int] = (),
    relevance_level: RelevanceLevel = 1,
    progress: ProgressSetting = None,
) -> RunEvaluations:
    """Measure runs over all queries of the qrels; a query without results counts 0.

    With ``depths``, ``measures`` are named without a cutoff and computed at each depth. Default measures:
    :data:`MEASURES`, with depths :data:`MEASURES_BY_DEPTH`. Grades from ``relevance_level`` up are relevant
    for measures that take a level and do not name one (``AP``, but not ``AP(rel=3)`` and ``nDCG``).

    Raises
    ------
    CollectionError
        If the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid.
    """
    if depths:
        expanded = expand_measures(
            MEASURES_BY_DEPTH if measures is None else measures, depths, relevance_level
        )
        names = [name for cut in expanded.values() for name in cut]
    else:
        expanded, names = (
            {},
            list(parse_measures(MEASURES if measures is None else measures, relevance_level)),
        )
    evaluations = measure_runs(runs, names, progress=progress)
    return RunEvaluations(evaluations, runs.source, tuple(depths), expanded)


def compare(
    runs: JudgedRuns,
    baselines: Baselines = (),
    measures: Measures = MEASURES,
    *,
    level: Level = 0.05,
    relevance_level: RelevanceLevel = 1,
    progress: ProgressSetting = None,
) -> Comparison:
    """Compare runs with baselines, given by name or file (default: the first run).

    A difference is significant if its p, after Holm's correction, is below ``level``.
    Grades from ``relevance_level`` up are relevant for measures that take a level and do not name one.

    Raises
    ------
    CollectionError
        If there are fewer than two runs, a baseline is not one of them, or the qrels judge no query of a run.
    MeasureError
        If the name of a measure is invalid, or the measure is not a mean over queries.
    """
    names = parse_measures(measures, relevance_level)
    require_means(names)
    runs.require_two("compare")
    chosen = _find_baselines([str(baseline) for baseline in baselines], runs)
    return compare_evaluations(measure_runs(runs, names, progress=progress), chosen, level=level)


def _find_baselines(baselines: Sequence[str], runs: JudgedRuns) -> list[str]:
    if not baselines:
        return list(runs.runs)[:1]
    files = {str(run): name for name, run in runs.runs.items() if isinstance(run, str | Path)}
    names = files | {name: name for name in runs.runs}
    for baseline in baselines:
        if baseline not in names:
            known = ", ".join(runs.runs)
            raise CollectionError(f"the baseline {baseline} is not one of the runs: {known}")
    return list(dict.fromkeys(names[baseline] for baseline in baselines))


def measure_runs(
    runs: JudgedRuns, measures: Sequence[str], *, progress: ProgressSetting = None
) -> dict[str, Evaluation]:
    """The evaluation of each run by name."""
    evaluations = {}
    for name in runs.runs:
        with show_progress(progress) as shown:
            evaluation = measure(runs.read(name), runs.qrels, measures, progress=shown)
        judged = len(evaluation.qids) - len(evaluation.missing)
        runs.check_judged(name, judged=judged, first=next(iter(evaluation.unjudged), None))
        evaluations[name] = evaluation
    return evaluations
