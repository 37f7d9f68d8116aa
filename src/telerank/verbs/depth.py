"""``depth``: the accuracy of a re-ranker by the depth of the first stage (RepBERT, figure 1b, table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from telerank.errors import MeasureError
from telerank.evaluate.measures import parse_measures
from telerank.evaluate.report import columns_table
from telerank.evaluate.reranking import Reranker, RerankingByDepth, measure_reranking, rerank_by_run
from telerank.show.plots import line_plot
from telerank.show.progress import show_progress
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.trec import read_run
from telerank.types import Progress
from telerank.verbs.judge import JudgedRuns

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
        return [columns_table(self.curves, self.depths, caption=caption, changes=True)]

    @property
    def remarks(self) -> list[str]:
        return [
            f"{name}: {curve.unscored:,} of {curve.candidates:,} candidates have no score in "
            f"{self.reranker}: they stay below the others"
            for name, curve in self.runs.items()
            if curve.unscored
        ]

    def record(self) -> dict[str, Any]:
        runs = {
            name: {
                "by_depth": curve.of(self.measure),
                "candidates": curve.candidates,
                "unscored": curve.unscored,
            }
            for name, curve in self.runs.items()
        }
        settings = {"depths": self.depths, "reranker": self.reranker, "measure": self.measure}
        return {**settings, "reranked": runs}

    def plot(self) -> Figure:
        """Plot the measure by depth, a line for each run."""
        return line_plot({f"{self.measure}, re-ranked": self.curves}, self.depths)


def depth(
    runs: JudgedRuns,
    reranker: str | Path | Reranker,
    measure: str = "RR@10",
    depths: Sequence[int] = DEPTHS,
    *,
    progress: Progress | None = None,
) -> RerankingCurves:
    """Re-rank the first n documents of each run, for each n of ``depths``, and measure.

    ``reranker`` is a run file of its scores over the candidates of all runs, or a re-ranker stage.

    Raises
    ------
    MeasureError
        If the measure's name is invalid, or there are several measures.
    """
    (name, *more) = parse_measures(measure)
    if more:
        raise MeasureError(f"the re-ranked lists are measured by one measure, got {measure!r}")
    is_file = isinstance(reranker, str | Path)
    rescore = rerank_by_run(read_run(reranker)) if isinstance(reranker, str | Path) else reranker
    with show_progress(progress) as shown:
        curves = {
            run: measure_reranking(runs.read(run), rescore, runs.qrels, name, depths, progress=shown)
            for run in runs.runs
        }
    return RerankingCurves(name, str(reranker) if is_file else "the re-ranker", tuple(depths), curves)
