"""First stages by depth: how well their candidates are re-ranked, and how they agree with a reference.

From RepBERT: figure 1b and table 2, and equation 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from telerank.errors import ArgumentError, CollectionError, MeasureError, agree, count_noun
from telerank.evaluation.compare import columns_table, depth_table
from telerank.evaluation.depth import (
    Consistency,
    Reranker,
    RerankingByDepth,
    measure_consistency,
    measure_reranking,
    read_candidates,
    rerank_by_run,
)
from telerank.evaluation.measures import MeasureNames, parse_measures
from telerank.show.plots import line_plot
from telerank.show.progress import show_progress
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.trec import check_exists, read_run
from telerank.types import ProgressSetting
from telerank.verbs.judge import JudgedRuns, JudgmentSource, Runs, judge_runs, name_runs, read_rankings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (5, 10, 50, 500, 1000)


@dataclass(frozen=True, eq=False)
class RerankingCurves(Report):
    """The re-ranked runs by name, measured by ``measure`` at each of ``depths``."""

    title: ClassVar[str] = "Re-ranking by depth"
    measure: str
    reranker: str
    depths: tuple[int, ...]
    runs: Mapping[str, RerankingByDepth]

    @property
    def curves(self) -> dict[str, tuple[float, ...]]:
        """``curves[run]``: the mean at each depth."""
        return {name: curve.of(self.measure) for name, curve in self.runs.items()}

    def tables(self) -> list[Table]:
        caption = f"{self.measure} of the first n, re-ranked"
        return [columns_table(self.curves, self.depths, caption=caption)]

    @property
    def remarks(self) -> list[str]:
        return [
            f"{name}: {curve.unscored:,} of {count_noun(curve.candidates, 'candidate')} "
            f"{agree(curve.unscored, 'has', 'have')} no score in "
            f"{self.reranker}: they stay below the others"
            for name, curve in self.runs.items()
            if curve.unscored
        ]

    def record(self) -> dict[str, Any]:
        runs = {
            name: {"by_depth": own.of(self.measure), "candidates": own.candidates, "unscored": own.unscored}
            for name, own in self.runs.items()
        }
        settings = {"depths": self.depths, "reranker": self.reranker, "measure": self.measure}
        return {**settings, "reranked": runs}

    def plot(self) -> Figure:
        """Plot the measure by depth, a line for each run."""
        return line_plot({f"{self.measure}, re-ranked": self.curves}, self.depths)


def depth(
    runs: JudgedRuns | Runs,
    reranker: str | Path | Reranker,
    measures: MeasureNames = "RR@10",
    depths: Sequence[int] = DEPTHS,
    *,
    qrels: JudgmentSource | None = None,
    progress: ProgressSetting = None,
) -> RerankingCurves:
    """Re-rank the first n documents of each run, for each n of ``depths``, and measure.

    ``runs`` and ``qrels`` are as for :func:`telerank.evaluate`.
    ``reranker`` is a run file of its scores over the candidates of all runs, or a re-ranker stage.

    Raises
    ------
    MeasureError
        If the measure's name is invalid, or there are several measures.
    """
    runs = judge_runs(runs, qrels)
    (name, *more) = parse_measures(measures)
    if more:
        raise MeasureError(f"the re-ranked lists are measured by one measure, got {measures!r}")
    if isinstance(reranker, str | Path):
        check_exists(reranker)
        label, rescore = str(reranker), rerank_by_run(read_run(reranker))
    else:
        label, rescore = "the re-ranker", reranker
    with show_progress(progress) as shown:
        curves = {
            run: measure_reranking(runs.read(run), rescore, runs.qrels, name, depths, progress=shown)
            for run in runs.runs
        }
    return RerankingCurves(name, label, tuple(depths), curves)


@dataclass(frozen=True, eq=False)
class ConsistencyCurves(Report):
    """The consistency factor of each run by name, with the first ``reference_depth`` of the reference."""

    title: ClassVar[str] = "Consistency"
    reference: str
    reference_depth: int
    depths: tuple[int, ...]
    runs: Mapping[str, Consistency]

    def tables(self) -> list[Table]:
        caption = f"Share of the first n that is among the first {self.reference_depth:,} of {self.reference}"
        curves = {name: {"C": factor.values} for name, factor in self.runs.items()}
        return [depth_table(curves, self.depths, caption=caption)]

    @property
    def remarks(self) -> list[str]:
        lines = []
        for name, factor in self.runs.items():
            if count := len(factor.unknown):
                unknown = f"{count} of {count_noun(factor.queries, 'query')}"
                lines.append(f"{name}: the reference has no list for {unknown}: they count 0")
            if count := len(factor.unanswered):
                unanswered = f"{count_noun(count, 'query')} of the reference"
                lines.append(f"{name}: has no document for {unanswered}: they do not count")
        return lines

    def record(self) -> dict[str, Any]:
        runs = [
            {"run": name, "by_depth": own.values, "unknown": own.unknown, "unanswered": own.unanswered}
            for name, own in self.runs.items()
        ]
        reference = {"reference": self.reference, "reference_depth": self.reference_depth}
        return {**reference, "depths": self.depths, "runs": runs}

    def plot(self) -> Figure:
        """Plot the consistency factor by depth, a line for each run."""
        curves = {name: factor.values for name, factor in self.runs.items()}
        return line_plot({"consistency factor": curves}, self.depths)


def consistency(
    reference: str | Path, runs: Runs, depths: Sequence[int], *, reference_depth: int = 1000
) -> ConsistencyCurves:
    """Compute the consistency factor of runs with the candidates of a reference run (RepBERT, equation 5).

    Raises
    ------
    CollectionError
        If a run has no document, or no query of it is in the reference.
    """
    check_exists(reference)
    by_name = name_runs(runs)
    candidates = read_candidates(read_rankings(reference), reference_depth)
    curves = {}
    for name, run in by_name.items():
        label = run if isinstance(run, str | Path) else name
        try:
            curves[name] = measure_consistency(read_rankings(run), candidates, depths)
        except ArgumentError as error:
            raise CollectionError(f"{label}: {error}") from error
        if len(curves[name].unknown) == curves[name].queries:
            raise CollectionError(f"{label}: none of its queries is in {reference}")
    return ConsistencyCurves(str(reference), reference_depth, tuple(depths), curves)
