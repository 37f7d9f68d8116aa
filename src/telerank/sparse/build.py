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
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain, compress, islice
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import DocstoreWriter
from telerank.errors import DocumentError
from telerank.sparse.copies import merge_keys
from telerank.sparse.postings import PostingsWriter
from telerank.sparse.runs import Run, RunMaker
from telerank.sparse.segment import Segment, write_terms
from telerank.sparse.worker import Workers
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

# Runs in the order of their rows, each with the number of its vocabulary; called twice.
Runs: TypeAlias = Callable[[], Iterator[tuple[int, Run]]]


def fold(
    folder: Path, documents: int, vocabularies: Sequence[Sequence[str]], runs: Runs, progress: Progress
) -> None:
    """Write the terms and postings of ``documents`` documents (see :mod:`telerank.sparse.segment`).

    Memory: the vocabularies, 60 bytes for each term, and one run at a time.
    """
    ordered = sorted(set().union(*vocabularies))
    number = {term: i for i, term in enumerate(ordered)}
    numbers = [np.array([number[term] for term in terms], np.int64) for terms in vocabularies]
    df, occurrences = np.zeros(len(ordered), np.int64), np.zeros(len(ordered), np.int64)
    for vocabulary, run in runs():
        ids = numbers[vocabulary][run.ids]
        df[ids] += run.counts
        occurrences[ids] += np.add.reduceat(run.tfs, run.starts, dtype=np.int64)
    held = df > 0  # terms whose documents are all deleted are dropped
    write_terms(folder, (term for term, kept in zip(ordered, held, strict=True) if kept))
    new, total, done = np.cumsum(held) - 1, int(df.sum()), 0
    writer = PostingsWriter(folder, documents, df[held], occurrences[held])
    for vocabulary, run in runs():
        writer.add(new[numbers[vocabulary][run.ids]], run.counts, run.rows, run.tfs)
        done += len(run.rows)
        progress("folding", done, total)
    writer.close()


STRETCH = 8 << 20  # characters
_REPORTED = 1000  # documents between two calls of progress
_PIECE = 4 << 20  # postings of a segment read at a time


def open_maker(
    analyzer: Analyzer, workers: int | None, *, alone: bool
) -> AbstractContextManager[RunMaker | Workers]:
    """What makes the runs of a segment: this process ``alone``, or ``workers`` others, one per core if None.

    It alone decides the terms of documents and their weights.
    """
    count = workers or count_cores()
    if alone or count == 1 or not analyzer.is_portable:
        return nullcontext(RunMaker(analyzer))
    return Workers(analyzer, count)


def build_segment(
    store: DocstoreWriter,
    docs: Iterable[Doc],
    new_maker: Callable[..., AbstractContextManager[RunMaker | Workers]],
    *,
    stretch: int = STRETCH,
    read_text: Callable[[Doc], str] = attrgetter("full_text"),
    progress: Progress = silent,
) -> None:
    """Write all files of a segment into the folder of ``store``, but for the keys of copies.

    ``read_text`` gives the text of a document that is analysed. ``new_maker`` opens what inverts ``stretch``
    characters at a time, ``alone`` if there are no more.
    """
    folder = store.folder
    scratch = folder / "runs"
    scratch.mkdir()
    with store:
        texts = _store(docs, store, partial(progress, "indexing"), None, read_text)
        stretches = _cut_stretches(texts, stretch)
        first = list(islice(stretches, 2))
        if not first:
            raise DocumentError("there is no document to index")
        paths: list[Path] = []
        row = 0
        # a second process would cost more than it saves
        with new_maker(alone=len(first) == 1) as maker:
            for part in chain(first, stretches):
                paths.append(scratch / f"{row}.run")
                maker.make(part, row, paths[-1])
                row += len(part)
            vocabularies, owners = maker.finish()
    lengths = np.concatenate([Run.load(path)[1] for path in paths])
    np.save(folder / "lengths.npy", lengths)

    def runs() -> Iterator[tuple[int, Run]]:
        return ((owner, Run.load(path)[0]) for owner, path in zip(owners, paths, strict=True))

    fold(folder, len(lengths), vocabularies, runs, progress)
    for path in paths:
        path.unlink()
    scratch.rmdir()


def merge_segments(
    folder: Path, segments: Sequence[Segment], progress: Progress = silent, *, piece: int = _PIECE
) -> None:
    """Write a segment of all documents that are not deleted, in their order; ``piece`` postings at a time."""
    kept = [np.ones(len(s), np.bool_) if not len(s.gone) else ~s.gone for s in segments]
    total = int(sum(map(np.count_nonzero, kept)))
    if not total:
        raise DocumentError("every document is deleted: nothing would be left")
    docs = (doc for segment, rows in zip(segments, kept, strict=True) for doc in compress(segment.docs, rows))
    kinds = {name: kind for segment in segments for name, kind in segment.docs.columns.kinds.items()}
    with DocstoreWriter(folder, kinds) as store:
        deque(_store(docs, store, partial(progress, "copying texts"), total), maxlen=0)
    merge_keys(folder, [segment.folder for segment in segments], kept)
    lengths = [segment.lengths[rows] for segment, rows in zip(segments, kept, strict=True)]
    np.save(folder / "lengths.npy", np.concatenate(lengths))
    all_kept = np.concatenate(kept)
    ends = np.cumsum(list(map(len, kept)))
    new_rows = np.split(np.where(all_kept, np.cumsum(all_kept) - 1, -1), ends[:-1])

    def runs() -> Iterator[tuple[int, Run]]:
        for owner, (segment, rows) in enumerate(zip(segments, new_rows, strict=True)):
            yield from ((owner, run) for run in _read_runs(segment, rows, piece))

    fold(folder, total, [[s.terms[i] for i in range(len(s.terms))] for s in segments], runs, progress)


def _store(
    docs: Iterable[Doc],
    store: DocstoreWriter,
    report: Callable[[int, int | None], None],
    total: int | None,
    read_text: Callable[[Doc], str] = attrgetter("full_text"),
) -> Iterator[str]:
    """Store documents and yield their texts."""
    for number, doc in enumerate(docs, 1):
        store.add(doc)
        yield read_text(doc)
        if number % _REPORTED == 0:
            report(number, total)


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
        last = max(int(np.searchsorted(offsets, int(offsets[first]) + piece, "right")) - 1, first + 1)
        held, tfs = segment.postings.read(np.arange(first, last))
        rows = new_rows[held]
        kept = rows >= 0
        terms = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))[kept]
        yield Run(
            *np.unique(terms, return_counts=True), rows[kept].astype(np.int32), tfs[kept].astype(np.int32)
        )
        first = last


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
