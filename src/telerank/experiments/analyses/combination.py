"""All ordered pairs of systems, fused (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import fmean, stdev
from typing import Literal

from pydantic import Field

from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Measure,
    Unavailable,
)
from telerank.experiments.published import published_matrix
from telerank.fusion.lists import Fusion
from telerank.fusion.matrix import CombinationMatrix, combine_runs
from telerank.show.tables import Table, show_change


class CombinationAnalysis(Analysis):
    """All ordered pairs of systems, fused."""

    kind: Literal["combination"]
    measure: Measure
    method: Literal["interleave", "linear", "rrf"] = "interleave"
    keep: int | None = Field(None, ge=1)
    """Documents of a combination that are kept; None: as many as of a ranking (equation 6 of RepBERT)."""
    published_measure: Measure | None = None
    """The measure of the published values, if it is another one, as in a small copy."""

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Fuse and measure all ordered pairs of systems; of systems with several seeds, for each seed."""
        if len(bench.systems) < 2:
            raise Unavailable(
                f"a combination needs two systems; available: {', '.join(bench.systems) or 'none'}"
            )
        fusion = Fusion(self.method, keep=self.keep or bench.depth)
        qrels, progress = bench.judged.qrels, bench.data.progress
        matrices = []
        for seed in range(max(len(runs.runs) for runs in bench.systems.values())):
            runs = {name: bench.rankings(name, seed) for name in bench.systems}
            matrices.append(combine_runs(runs, qrels, self.measure, fusion=fusion, progress=progress))
        first = matrices[0]
        tables = first.tables() if len(matrices) == 1 else [_mean_table(matrices)]
        tables = [replace(table, caption=self.title or table.caption) for table in tables]
        if bench.published:
            tables.append(published_matrix(bench.published, self.published_measure or self.measure))
        cells = [asdict(cell) for cell in first.cells]
        record = {"alone": first.alone, "combinations": cells, "published": bench.published}
        if len(matrices) > 1:
            record["by_seed"] = [_values(matrix) for matrix in matrices]
        return AnalysisResult(tuple(tables), record)


def _values(matrix: CombinationMatrix) -> dict[str, dict[str, float]]:
    """``values[first][second]``; a run alone is on the diagonal."""
    (measure,) = matrix.measures
    values = {name: {name: matrix.alone[name][measure]} for name in matrix.runs}
    for cell in matrix.cells:
        values[cell.first][cell.second] = cell.mean
    return values


def _mean_table(matrices: Sequence[CombinationMatrix]) -> Table:
    """The means over the seeds with their standard deviations, and the changes from the run alone."""
    by_seed, names = [_values(matrix) for matrix in matrices], matrices[0].runs
    rows = []
    for first in names:
        alone = fmean(values[first][first] for values in by_seed)
        row = [first]
        for second in names:
            cells = [values[first][second] for values in by_seed]
            change = "" if first == second else f" {show_change(fmean(cells), alone)}"
            spread = f" ± {stdev(cells):.3f}" if len(set(cells)) > 1 else ""
            row.append(f"{fmean(cells):.3f}{spread}{change}")
        rows.append(row)
    spread = f"± is the standard deviation over {len(matrices)} seeds"
    note = f"In brackets the change from the row's run alone, which is on the diagonal; {spread}."
    (measure,) = matrices[0].measures
    return Table.of(("", *(f"+ {name}" for name in names)), rows, caption=measure, notes=[note])
