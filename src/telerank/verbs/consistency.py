"""``consistency``: the share of runs' documents that are candidates of a reference, by depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from telerank.errors import CollectionError
from telerank.evaluate.consistency import Consistency, Reference, measure_consistency
from telerank.evaluate.report import depth_table
from telerank.show.plots import line_plot
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.verbs.judge import Runs, name_runs, read_rankings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
            if factor.unknown:
                count = f"{len(factor.unknown)} of {factor.queries}"
                lines.append(f"{name}: the reference has no list for {count} queries: they count 0")
            if factor.unanswered:
                count = f"{len(factor.unanswered)}"
                lines.append(
                    f"{name}: has no document for {count} queries of the reference: they do not count"
                )
        return lines

    def record(self) -> dict[str, Any]:
        return {
            "reference": self.reference,
            "reference_depth": self.reference_depth,
            "depths": self.depths,
            "runs": [
                {
                    "run": name,
                    "by_depth": factor.values,
                    "unknown": factor.unknown,
                    "unanswered": factor.unanswered,
                }
                for name, factor in self.runs.items()
            ],
        }

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
    candidates = Reference.of(read_rankings(reference), reference_depth)
    curves = {}
    for name, run in name_runs(runs).items():
        label = run if isinstance(run, str | Path) else name
        try:
            curves[name] = measure_consistency(read_rankings(run), candidates, depths)
        except ValueError as error:
            raise CollectionError(f"{label}: {error}") from error
        if len(curves[name].unknown) == curves[name].queries:
            raise CollectionError(f"{label}: none of its queries is in {reference}")
    return ConsistencyCurves(str(reference), reference_depth, tuple(depths), curves)
