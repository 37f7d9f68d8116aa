"""Every run combined with every other: which adds what to which (RepBERT, tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from telerank.evaluate.measures import Values, measure, parse_measures
from telerank.evaluate.statistics import holm, paired_t, settled
from telerank.fuse.interleave import interleaved
from telerank.fuse.joined import joined
from telerank.fuse.methods import Fusion
from telerank.types import Progress, Qrels, Ranking, silent

_BATCH = 256  # queries whose lists are held at once


@dataclass(frozen=True)
class Combination:
    """``first`` + ``second`` by one measure, beside ``first`` alone.

    ``percent`` is the change from ``first`` in percent of it (NaN where it is 0). ``p`` is of a paired
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
class Matrix:
    """``alone[run][measure]`` is the mean of a run as it stands; ``cells`` are all ordered pairs."""

    runs: tuple[str, ...]
    measures: tuple[str, ...]
    queries: int
    alone: Mapping[str, Mapping[str, float]]
    cells: tuple[Combination, ...]

    def cell(self, first: str, second: str, measure_name: str) -> Combination:
        asked = (first, second, measure_name)
        for one in self.cells:
            if (one.first, one.second, one.measure) == asked:
                return one
        raise KeyError(asked)


def combine(
    runs: Mapping[str, Iterable[Ranking]],
    qrels: Qrels,
    measures: Sequence[str] | str,
    *,
    fusion: Fusion = interleaved,
    progress: Progress = silent,
) -> Matrix:
    """Fuse all ordered pairs of the runs, and measure each pair beside its first run.

    Means are over all queries of the qrels; one that both runs lack counts 0. The runs are read once, side
    by side, and need not fit in memory.

    Raises
    ------
    MeasureError
        where a name is not a measure's.
    ValueError
        where there are fewer than two runs, or the qrels hold no query.
    """
    names, measured = tuple(runs), parse_measures(measures)
    if len(names) < 2:
        raise ValueError(f"a combination is of two runs, got {len(names)}")
    if not qrels:
        raise ValueError("the qrels hold no query")
    place = {qid: i for i, qid in enumerate(qrels)}
    pairs = [(a, b) for a in names for b in names]
    table = np.zeros((len(pairs), len(measured), len(qrels)))  # a run itself where a pair is of one run
    answered = 0
    for batch in _batches(one for one in joined(list(runs.values())) if one[0].query.qid in place):
        part = {lists[0].query.qid: qrels[lists[0].query.qid] for lists in batch}
        columns = [place[qid] for qid in part]
        for row, (a, b) in zip(table, pairs, strict=True):
            found = measure(_fused(batch, names.index(a), names.index(b), fusion), part, measured)
            row[:, columns] = np.stack(list(found.values.values()))
        answered += len(batch)
        progress("combining", answered, len(qrels))
    values = dict(zip(pairs, table, strict=True))
    alone = {
        name: dict(zip(measured, values[name, name].mean(axis=1).tolist(), strict=True)) for name in names
    }
    return Matrix(names, measured, len(qrels), alone, _cells(values, measured))


def _batches(stream: Iterator[tuple[Ranking, ...]]) -> Iterator[list[tuple[Ranking, ...]]]:
    while batch := list(islice(stream, _BATCH)):
        yield batch


def _fused(batch: Sequence[tuple[Ranking, ...]], a: int, b: int, fusion: Fusion) -> Iterator[Ranking]:
    return (lists[a] if a == b else fusion((lists[a], lists[b])) for lists in batch)


def _cells(values: Mapping[tuple[str, str], Values], measured: Sequence[str]) -> tuple[Combination, ...]:
    cells = []
    keys = [(a, b, i) for a, b in values if a != b for i in range(len(measured))]
    p_values = [paired_t(settled(values[a, b][i] - values[a, a][i])) for a, b, i in keys]
    for (a, b, i), p, corrected in zip(keys, p_values, holm(p_values), strict=True):
        mean, before = float(values[a, b][i].mean()), float(values[a, a][i].mean())
        percent = 100.0 * (mean - before) / before if before else float("nan")
        cells.append(Combination(a, b, measured[i], mean, percent, p, corrected))
    return tuple(cells)
