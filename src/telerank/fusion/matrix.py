"""Fuse every ordered pair of runs: what each run adds to each other (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from telerank.evaluation.measures import Values, measure, parse_measures
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.fusion.interleave import DEPTH
from telerank.fusion.join import join_runs
from telerank.fusion.methods import Fusion
from telerank.fusion.report import matrix_table
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, Qrels, Ranking, silent

_BATCH = 256  # queries in memory at once


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
        return [matrix_table(self, name) for name in self.measures]

    @property
    def remarks(self) -> list[str]:
        lines = []
        for name in self.runs:
            if count := self.missing[name]:
                lines.append(f"{name}: has no list for {count} of {self.queries} queries of the qrels")
            if unjudged := self.unjudged[name]:
                lines.append(f"{name}: {len(unjudged)} queries are not in the qrels: they do not count")
        return lines

    def record(self) -> dict[str, Any]:
        combinations = [asdict(cell) for cell in self.cells]
        fusion = asdict(self.fusion)
        return {"fusion": fusion, "queries": self.queries, "alone": self.alone, "combinations": combinations}


def combine_runs(
    runs: Mapping[str, Iterable[Ranking]],
    qrels: Qrels,
    measures: Sequence[str] | str,
    *,
    fusion: Fusion = Fusion("interleave", depth=DEPTH),  # noqa: B008 — frozen
    progress: Progress = silent,
) -> CombinationMatrix:
    """Fuse all ordered pairs of the runs, and compare each pair with its first run.

    Means are over all queries of the qrels; a query in neither run counts 0. The runs are read once, in
    parallel, and need not fit in memory. Raises ValueError for fewer than two runs or empty qrels.
    """
    names, measured = tuple(runs), parse_measures(measures)
    if len(names) < 2:
        raise ValueError(f"a combination needs two runs or more, got {len(names)}")
    if not qrels:
        raise ValueError("the qrels are empty")
    column = {qid: i for i, qid in enumerate(qrels)}
    pairs = [(a, b) for a in names for b in names]
    table = np.zeros((len(pairs), len(measured), len(qrels)))  # (a, a): run a alone
    answered = 0
    judged: dict[str, list[str]] = {name: [] for name in names}
    unjudged: dict[str, list[str]] = {name: [] for name in names}
    lists_of_queries = join_runs(list(runs.values()))
    for batch in _batches(_judged(lists_of_queries, column, judged, unjudged)):
        part = {lists[0].query.qid: qrels[lists[0].query.qid] for lists in batch}
        columns = [column[qid] for qid in part]
        for row, (a, b) in zip(table, pairs, strict=True):
            evaluation = measure(_fuse(batch, names.index(a), names.index(b), fusion), part, measured)
            row[:, columns] = np.stack(list(evaluation.values.values()))
        answered += len(batch)
        progress("combining", answered, len(qrels))
    values = dict(zip(pairs, table, strict=True))
    alone = {
        name: dict(zip(measured, values[name, name].mean(axis=1).tolist(), strict=True)) for name in names
    }
    return CombinationMatrix(
        names,
        measured,
        len(qrels),
        fusion,
        alone,
        _cells(values, measured),
        missing={name: len(qrels) - len(qids) for name, qids in judged.items()},
        unjudged=unjudged,
    )


def _judged(
    stream: Iterator[tuple[Ranking, ...]],
    qrels: Mapping[str, object],
    judged: Mapping[str, list[str]],
    unjudged: Mapping[str, list[str]],
) -> Iterator[tuple[Ranking, ...]]:
    """The lists of judged queries; collects the judged and unjudged queries of each run."""
    for lists in stream:
        qid = lists[0].query.qid
        for name, ranking in zip(judged, lists, strict=True):
            if len(ranking):
                (judged if qid in qrels else unjudged)[name].append(qid)
        if qid in qrels:
            yield lists


def _batches(stream: Iterator[tuple[Ranking, ...]]) -> Iterator[list[tuple[Ranking, ...]]]:
    while batch := list(islice(stream, _BATCH)):
        yield batch


def _fuse(batch: Sequence[tuple[Ranking, ...]], a: int, b: int, fusion: Fusion) -> Iterator[Ranking]:
    return (lists[a] if a == b else fusion((lists[a], lists[b])) for lists in batch)


def _cells(values: Mapping[tuple[str, str], Values], measured: Sequence[str]) -> tuple[Combination, ...]:
    cells = []
    keys = [(a, b, i) for a, b in values if a != b for i in range(len(measured))]
    p_values = [paired_t(zero_noise(values[a, b][i] - values[a, a][i])) for a, b, i in keys]
    for (a, b, i), p, corrected in zip(keys, p_values, holm(p_values), strict=True):
        mean, before = float(values[a, b][i].mean()), float(values[a, a][i].mean())
        percent = 100.0 * (mean - before) / before if before else float("nan")
        cells.append(Combination(a, b, measured[i], mean, percent, p, corrected))
    return tuple(cells)
