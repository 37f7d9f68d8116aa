"""Fuse every ordered pair of runs: what each run adds to each other (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, permutations, product
from typing import Any, ClassVar

import numpy as np

from telerank.errors import ArgumentError, count_noun
from telerank.evaluation.compare import describe_unjudged
from telerank.evaluation.measures import MeasureNames, Values, measure, parse_measures, require_means
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.fusion.lists import DEPTH, Fusion, join_runs
from telerank.show.report import Report
from telerank.show.tables import Cell, Table, show_change
from telerank.types import Progress, Qrels, Ranking, silent

_BATCH = 256  # queries in memory at once
_MARK = "†"


@dataclass(frozen=True)
class Combination:
    """The fusion of ``first`` and ``second`` by one measure, compared with ``first`` alone.

    ``percent`` is the change from ``first`` in percent (NaN if its mean is 0). ``p`` is of a paired
    t-test, ``p_holm`` corrected over all cells of all measures.
    """

    first: str
    second: str
    measure: str
    mean: float
    percent: float
    p: float
    p_holm: float


@dataclass(frozen=True, eq=False)
class CombinationMatrix(Report):
    """``alone[run][measure]`` is the mean of a single run; ``cells`` are all ordered pairs.

    ``missing[run]`` counts the queries of the qrels without a list in the run; ``unjudged[run]`` are the
    queries of the run that are not in the qrels. A change whose corrected p is below ``level`` is
    significant.
    """

    title: ClassVar[str] = "Combinations"
    runs: tuple[str, ...]
    measures: tuple[str, ...]
    queries: int
    fusion: Fusion
    alone: Mapping[str, Mapping[str, float]]
    cells: tuple[Combination, ...]
    missing: Mapping[str, int]
    unjudged: Mapping[str, Sequence[str]]
    level: float = 0.05

    def cell(self, first: str, second: str, measure_name: str) -> Combination:
        cells = {(cell.first, cell.second, cell.measure): cell for cell in self.cells}
        return cells[first, second, measure_name]

    def tables(self) -> list[Table]:
        """For each measure a row per first run, a column per second run, like tables 3 and 4 of RepBERT."""
        note = (
            "In brackets the change from the row's run alone, which is on the diagonal; "
            f"{_MARK} p < {self.level:g} (paired t-test over {count_noun(self.queries, 'query')}, "
            f"Holm's correction over "
            "all cells of all measures)."
        )
        columns = ("", *(f"+ {name}" for name in self.runs))
        return [
            Table.of(columns, [self._row(first, name) for first in self.runs], caption=name, notes=[note])
            for name in self.measures
        ]

    def _row(self, first: str, name: str) -> list[str | Cell]:
        """The combinations of a run, the best strong; in its own column the run alone."""
        alone = self.alone[first][name]
        cells = {second: self.cell(first, second, name) for second in self.runs if second != first}
        best = max(round(mean, 3) for mean in (alone, *(cell.mean for cell in cells.values())))
        row: list[str | Cell] = [first]
        for second in self.runs:
            cell = cells.get(second)
            mean, change = (cell.mean, show_change(cell.mean, alone)) if cell else (alone, "")
            row.append(
                Cell(
                    f"{mean:.3f} {change:>6}",
                    strong=round(mean, 3) == best,
                    marks=_MARK if cell and cell.p_holm < self.level else "",
                )
            )
        return row

    @property
    def remarks(self) -> list[str]:
        lines = []
        for name in self.runs:
            if count := self.missing[name]:
                lines.append(
                    f"{name}: has no list for {count} of {count_noun(self.queries, 'query')} of the qrels"
                )
            if unjudged := self.unjudged[name]:
                lines.append(f"{name}: {describe_unjudged(len(unjudged))}")
        return lines

    def record(self) -> dict[str, Any]:
        return {
            "fusion": asdict(self.fusion),
            "queries": self.queries,
            "alone": self.alone,
            "combinations": [asdict(cell) for cell in self.cells],
        }


def combine_runs(
    runs: Mapping[str, Iterable[Ranking]],
    qrels: Qrels,
    measures: MeasureNames,
    *,
    fusion: Fusion = Fusion("interleave", depth=DEPTH),  # noqa: B008 — frozen
    progress: Progress = silent,
) -> CombinationMatrix:
    """Fuse all ordered pairs of the runs, and compare each pair with its first run.

    Means are over all queries of the qrels; a query in neither run counts 0. The runs are read once, in
    parallel, and need not fit in memory. Raises ValueError for fewer than two runs or empty qrels.
    """
    names, measured = tuple(runs), parse_measures(measures)
    require_means(measured)
    if len(names) < 2:
        raise ArgumentError(f"a combination needs two runs or more, got {len(names)}")
    if not qrels:
        raise ArgumentError("the qrels are empty")
    column = {qid: i for i, qid in enumerate(qrels)}
    # (first, second, measure, query); the diagonal of the first two is the runs alone
    table = np.zeros((len(names), len(names), len(measured), len(qrels)))
    missing: dict[str, int] = dict.fromkeys(names, len(qrels))
    unjudged: dict[str, list[str]] = {name: [] for name in names}
    answered, joined = 0, join_runs(list(runs.values()))
    while batch := list(islice(joined, _BATCH)):
        for lists in batch:
            for name, ranking in zip(names, lists, strict=True):
                if len(ranking) and ranking.query.qid in qrels:
                    missing[name] -= 1
                elif len(ranking):
                    unjudged[name].append(ranking.query.qid)
        judged = {lists[0].query.qid: lists for lists in batch if lists[0].query.qid in qrels}
        part = {qid: qrels[qid] for qid in judged}
        columns = [column[qid] for qid in judged]
        for a, b in product(range(len(names)), repeat=2) if judged else ():
            fused = (lists[a] if a == b else fusion((lists[a], lists[b])) for lists in judged.values())
            table[a, b][:, columns] = list(measure(fused, part, measured).values.values())
        answered += len(judged)
        progress("combining", answered, len(qrels))
    return CombinationMatrix(
        names,
        measured,
        len(qrels),
        fusion,
        {
            name: dict(zip(measured, table[a, a].mean(axis=1).tolist(), strict=True))
            for a, name in enumerate(names)
        },
        _combinations(table, names, measured),
        missing,
        unjudged,
    )


def _combinations(table: Values, names: Sequence[str], measured: Sequence[str]) -> tuple[Combination, ...]:
    keys = [(a, b, i) for a, b in permutations(range(len(names)), 2) for i in range(len(measured))]
    p_values = [paired_t(zero_noise(table[a, b, i] - table[a, a, i])) for a, b, i in keys]
    cells = []
    for (a, b, i), p, corrected in zip(keys, p_values, holm(p_values), strict=True):
        mean, before = float(table[a, b, i].mean()), float(table[a, a, i].mean())
        percent = 100.0 * (mean - before) / before if before else float("nan")
        cells.append(Combination(names[a], names[b], measured[i], mean, percent, p, corrected))
    return tuple(cells)
