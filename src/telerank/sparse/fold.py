"""Folding runs into a segment's inverted file: terms in order, each with its postings from all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.sparse.runs import Run
from telerank.sparse.segment import ESCAPE, write_terms
from telerank.stored import load_npy
from telerank.types import Progress

Runs: TypeAlias = Callable[[], Iterator[tuple[int, Run]]]
"""Runs in the order of their rows, each with the number of its vocabulary; called twice."""


def fold(folder: Path, vocabularies: Sequence[Sequence[str]], runs: Runs, progress: Progress) -> None:
    """Write the inverted file (see :mod:`telerank.sparse.segment`).

    Memory: the vocabularies, 30 bytes for each term, and one run at a time.
    """
    ordered = sorted(set().union(*vocabularies))
    number = {term: i for i, term in enumerate(ordered)}
    numbers = [np.array([number[term] for term in terms], np.int64) for terms in vocabularies]
    df, occurrences = np.zeros(len(ordered), np.int64), np.zeros(len(ordered), np.int64)
    for vocabulary, run in runs():
        _count(numbers[vocabulary][run.ids], run.counts, run.tfs, df, occurrences)
    held = df > 0  # terms whose documents are all deleted are dropped
    write_terms(folder, (term for term, kept in zip(ordered, held, strict=True) if kept))
    new = np.cumsum(held) - 1
    df = df[held]
    offsets = np.concatenate(([0], np.cumsum(df)))
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "occurrences.npy", occurrences[held])
    _write_postings(folder, offsets, ((new[numbers[v][run.ids]], run) for v, run in runs()), progress)


def _write_postings(
    folder: Path,
    offsets: npt.NDArray[np.int64],
    runs: Iterator[tuple[npt.NDArray[np.int64], Run]],
    progress: Progress,
) -> None:
    postings, done = int(offsets[-1]), 0
    rows = _create_array(folder / "rows.npy", np.int32, postings)
    tfs = _create_array(folder / "tfs.npy", np.uint8, postings)
    ends, large = offsets[:-1].copy(), []
    for ids, run in runs:
        large.append(_append(ids, run.counts, run.rows, run.tfs, (ends, rows, tfs)))
        done += len(run.rows)
        progress("folding", done, postings)
    pairs = np.concatenate([np.empty((0, 2), np.int64), *large])
    np.save(folder / "tfs.large.npy", pairs[np.argsort(pairs[:, 0])])
    rows.flush()
    tfs.flush()


def _create_array(path: Path, kind: type[np.generic], size: int) -> np.memmap[Any, Any]:
    """Create an array in a file, to be written to as if in memory; the caller calls ``flush``."""
    # zeros are written now: a process that later finds the disk full while writing a mapped page is killed
    np.save(path, np.zeros(size, kind))
    array: np.memmap[Any, Any] = load_npy(path, mmap_mode="r+")
    return array


@compiled
def _count(ids: Any, counts: Any, tfs: Any, df: Any, occurrences: Any) -> None:
    start = 0
    for i in range(len(ids)):
        df[ids[i]] += counts[i]
        for j in range(start, start + counts[i]):
            occurrences[ids[i]] += tfs[j]
        start += counts[i]


@compiled
def _append(ids: Any, counts: Any, rows: Any, tfs: Any, into: Any) -> Any:
    """Append a run's postings to those of earlier runs; return postings and values of large frequencies."""
    ends, all_rows, all_tfs = into
    large = np.empty((np.sum(tfs >= ESCAPE), 2), np.int64)
    start, count = 0, 0
    for i in range(len(ids)):
        end = ends[ids[i]]
        for j in range(counts[i]):
            all_rows[end + j] = rows[start + j]
            all_tfs[end + j] = min(tfs[start + j], ESCAPE)
            if tfs[start + j] >= ESCAPE:
                large[count, 0], large[count, 1] = end + j, tfs[start + j]
                count += 1
        ends[ids[i]] = end + counts[i]
        start += counts[i]
    return large
