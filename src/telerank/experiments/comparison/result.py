"""What an experiment measured: a table to print and to save, values by query, runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.errors import CollectionError, MissingExtra
from telerank.evaluation.compare import Comparison, comparison_table
from telerank.evaluation.measures import Evaluation
from telerank.experiments.comparison.shared_run import SystemTimes
from telerank.show.report import Report
from telerank.show.tables import Cell, Table
from telerank.trec import write_run
from telerank.types import Ranking

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class SystemRun:
    """The rankings of one system, in the order of the queries."""

    rankings: tuple[Ranking, ...]

    def save(self, path: str | Path) -> None:
        """Write them as a TREC run file; ``.gz`` packs it."""
        write_run(path, self.rankings)

    def __iter__(self) -> Iterator[Ranking]:
        return iter(self.rankings)

    def __len__(self) -> int:
        return len(self.rankings)


@dataclass(frozen=True, eq=False)
class ExperimentResult(Report):
    """Measures of several systems on the same queries, and which differences are significant."""

    comparison: Comparison
    runs: Mapping[str, SystemRun]
    times: SystemTimes
    title: str = ""

    @property
    def evaluations(self) -> Mapping[str, Evaluation]:
        """The values of each system, query by query."""
        return self.comparison.evaluations

    def run(self, system: str) -> SystemRun:
        """The rankings of a system; raises CollectionError if there is no such system."""
        if system not in self.runs:
            raise CollectionError(f"no system {system!r}; there are: {', '.join(self.runs)}")
        return self.runs[system]

    @property
    def table(self) -> Table:
        """A row for each system: means with the marks of significant differences, milliseconds per query."""
        means = comparison_table(self.comparison)
        times = [f"{self.times.milliseconds(name):.2f}" for name in self.evaluations]
        rows: list[list[str | Cell]] = [[*row, time] for row, time in zip(means.rows, times, strict=True)]
        how = "ms/query: wall time, queries in batches; a stage that systems share counts for each."
        notes = (*means.notes, how)
        return Table.of((*means.columns, "ms/query"), rows, caption=self.title or means.caption, notes=notes)

    def tables(self) -> list[Table]:
        return [self.table]

    def record(self) -> dict[str, Any]:
        """Every value, for JSON."""
        return {
            "title": self.title,
            "baselines": list(self.comparison.baselines),
            "systems": {
                name: {
                    "mean": evaluation.mean,
                    "milliseconds_per_query": self.times.milliseconds(name),
                    "per_query": {measure: evaluation.of(measure) for measure in evaluation.measures},
                }
                for name, evaluation in self.evaluations.items()
            },
            "differences": [asdict(difference) for difference in self.comparison.differences],
        }

    def to_pandas(self) -> pd.DataFrame:
        """A row for each system and query, a column for each measure; needs pandas."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas", "pandas") from error
        names = self.comparison.measures
        rows = [
            {"system": name, "qid": qid, **{measure: evaluation.of(measure)[qid] for measure in names}}
            for name, evaluation in self.evaluations.items()
            for qid in evaluation.qids
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"ExperimentResult({', '.join(self.evaluations)}: {', '.join(self.comparison.measures)})"
