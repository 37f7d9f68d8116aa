"""Building one segment: from documents, in bounded memory and on all cores, or from other segments.

The stream of documents is cut into stretches of 8 M characters. A worker process analyses a stretch and
inverts it into a run (:mod:`telerank.sparse.runs`), while this process reads on and writes the texts; at the
end :func:`fold` joins them. Memory does not depend on the size of the corpus: about
200 MB for each process besides its vocabulary (about 150 bytes a distinct term), and the sorting of docnos.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.corpus.docstore import DocstoreWriter
from telerank.errors import DocumentError
from telerank.sparse.runs import Run, RunMaker
from telerank.sparse.segment import ESCAPE, Segment, write_terms
from telerank.sparse.worker import Workers
from telerank.stored import load_npy
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

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
    postings, done = int(offsets[-1]), 0
    rows = _create_array(folder / "rows.npy", np.int32, postings)
    tfs = _create_array(folder / "tfs.npy", np.uint8, postings)
    ends, large = offsets[:-1].copy(), [np.empty((0, 2), np.int64)]
    for vocabulary, run in runs():
        ids = new[numbers[vocabulary][run.ids]]
        large.append(_append(ids, run.counts, run.rows, run.tfs, (ends, rows, tfs)))
        done += len(run.rows)
        progress("folding", done, postings)
    pairs = np.concatenate(large)
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


STRETCH = 8 << 20  # characters
_REPORTED = 1000  # documents between two calls of progress
_PIECE = 4 << 20  # postings of a segment read at a time


def build_segment(
    folder: Path,
    docs: Iterable[Doc],
    analyzer: Analyzer,
    *,
    workers: int | None = None,
    stretch: int = STRETCH,
    progress: Progress = silent,
) -> None:
    """Write all files of a segment into an empty folder; with ``workers`` None every core is used.

    ``stretch`` is the number of characters that a process analyses and inverts at a time.
    """
    count = workers or count_cores()
    scratch = folder / "runs"
    scratch.mkdir()
    with DocstoreWriter(folder) as store:
        texts = _store(docs, store, lambda done: progress("indexing", done, None))
        stretches = _cut_stretches(texts, stretch)
        first = list(islice(stretches, 2))
        if not first:
            raise DocumentError("there is no document to index")
        stretches = chain(first, stretches)
        if count == 1 or len(first) == 1:  # a second process would cost more than it saves
            maker = RunMaker(analyzer)
            paths = _make_all(maker, stretches, scratch)
            vocabularies, owners = [maker.vocabulary], [0] * len(paths)
        else:
            with Workers(analyzer, count) as pool:
                paths = _make_all(pool, stretches, scratch)
                vocabularies, owners = pool.finish()
    np.save(folder / "lengths.npy", np.concatenate([Run.load(path)[1] for path in paths]))

    def runs() -> Iterator[tuple[int, Run]]:
        return ((owner, Run.load(path)[0]) for owner, path in zip(owners, paths, strict=True))

    fold(folder, vocabularies, runs, progress)
    for path in paths:
        path.unlink()
    scratch.rmdir()


def merge_segments(
    folder: Path, segments: Sequence[Segment], progress: Progress = silent, *, piece: int = _PIECE
) -> None:
    """Write a segment of all documents that are not deleted, in their order; ``piece`` postings at a time."""
    new_rows, total = [], 0
    for segment in segments:
        kept = np.ones(len(segment), np.bool_) if not len(segment.deleted) else ~segment.deleted
        new_rows.append(np.where(kept, np.cumsum(kept) - 1 + total, -1))
        total += int(kept.sum())
    if not total:
        raise DocumentError("every document is deleted: nothing would be left")
    docs = (
        doc for segment in segments for row, doc in enumerate(segment.docs) if not segment.is_deleted(row)
    )
    with DocstoreWriter(folder) as store:
        deque(_store(docs, store, lambda done: progress("copying texts", done, total)), maxlen=0)
    pairs = list(zip(segments, new_rows, strict=True))
    lengths = [np.asarray(segment.lengths)[rows >= 0] for segment, rows in pairs]
    np.save(folder / "lengths.npy", np.concatenate(lengths))

    def runs() -> Iterator[tuple[int, Run]]:
        for owner, (segment, rows) in enumerate(pairs):
            yield from ((owner, run) for run in _read_runs(segment, rows, piece))

    vocabularies = [[segment.terms[i] for i in range(len(segment.terms))] for segment in segments]
    fold(folder, vocabularies, runs, progress)


def _make_all(maker: RunMaker | Workers, stretches: Iterable[list[str]], scratch: Path) -> list[Path]:
    paths, row = [], 0
    for texts in stretches:
        paths.append(scratch / f"{row}.run")
        maker.make(texts, row, paths[-1])
        row += len(texts)
    return paths


def _store(docs: Iterable[Doc], store: DocstoreWriter, report: Callable[[int], None]) -> Iterator[str]:
    """Store documents and yield their texts."""
    for number, doc in enumerate(docs, 1):
        store.add(doc)
        yield doc.full_text
        if number % _REPORTED == 0:
            report(number)


def _cut_stretches(texts: Iterable[str], characters: int) -> Iterator[list[str]]:
    stretch: list[str] = []
    room = characters
    for text in texts:
        stretch.append(text)
        room -= len(text) + 1
        if room <= 0:
            yield stretch
            stretch, room = [], characters
    if stretch:
        yield stretch


def _read_runs(segment: Segment, new_rows: npt.NDArray[np.int64], piece: int) -> Iterator[Run]:
    """The postings of a segment by stretches of terms, with the new rows of their documents."""
    offsets = segment.offsets
    first = 0
    while first < len(segment.terms):
        last = max(int(np.searchsorted(offsets, offsets[first] + piece, "right")) - 1, first + 1)
        start, end = offsets[first], offsets[last]
        rows = new_rows[segment.rows[start:end]]
        tfs = segment.frequencies(int(start), int(end))
        owner = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
        kept = rows >= 0
        ids, counts = np.unique(owner[kept], return_counts=True)
        yield Run(ids, counts, rows[kept].astype(np.int32), tfs[kept].astype(np.int32))
        first = last


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
