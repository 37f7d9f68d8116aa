"""Building one segment: from documents, in bounded memory and on all cores, or from other segments.

The stream of documents is cut into stretches of 8 M characters. A worker process analyses a stretch and
inverts it into a run (:mod:`telerank.sparse.runs`), while this process reads on and writes the texts; at the
end :func:`fold` joins them. Memory does not depend on the size of the corpus: about
200 MB for each process besides its vocabulary (about 150 bytes a distinct term), and the sorting of docnos.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.corpus.read_fields import check_kinds
from telerank.errors import DocumentError
from telerank.sparse.copies import CopyKeys, merge_keys
from telerank.sparse.inverted.lists import FIELDS, WEIGHTS, InvertedFile
from telerank.sparse.inverted.positions import PositionsWriter
from telerank.sparse.inverted.postings import Numbers, PostingsWriter
from telerank.sparse.inverted.terms import write_terms
from telerank.sparse.runs import Run, RunMaker
from telerank.sparse.segment import Segment
from telerank.sparse.worker import Workers
from telerank.stored import load_npy
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

# Runs in the order of their rows, each with the number of its vocabulary; called twice.
Runs: TypeAlias = Callable[[], Iterator[tuple[int, Run]]]
STRETCH = 8 << 20  # characters
_REPORTED = 1000  # documents between two calls of progress
_PIECE = 4 << 20  # postings of a segment read at a time


def fold(
    folder: Path,
    documents: int,
    vocabularies: Sequence[Sequence[str]],
    lists: Mapping[str, Runs],
    progress: Progress,
) -> None:
    """Write inverted files of ``documents`` documents, whose lengths are there, by the prefix of their names.

    Those of fields share their terms (see :mod:`telerank.sparse.inverted.lists`).
    Memory: the vocabularies, 60 bytes for each term, and one run at a time.
    """
    ordered = sorted(set().union(*vocabularies))
    number = {term: i for i, term in enumerate(ordered)}
    numbers = [np.array([number[term] for term in terms], np.int64) for terms in vocabularies]
    counted = {prefix: _count(folder, prefix, numbers, len(ordered), runs) for prefix, runs in lists.items()}
    # terms whose documents are all deleted are dropped
    held = np.any([df > 0 for df, _, _ in counted.values()], axis=0)
    shared = FIELDS if next(iter(lists)).startswith(FIELDS) else next(iter(lists))
    write_terms(folder, (term for term, kept in zip(ordered, held, strict=True) if kept), shared)
    total, done = sum(int(df.sum()) for df, _, _ in counted.values()), 0
    for prefix, runs in lists.items():
        df, occurrences, spans = counted[prefix]
        own = df > 0
        if shared == FIELDS:
            np.save(folder / f"{prefix}numbers.npy", (np.cumsum(held) - 1)[own].astype(np.int32))
        new = np.cumsum(own) - 1
        writer = PostingsWriter(folder, documents, df[own], occurrences[own], prefix)
        positions = PositionsWriter(folder, occurrences[own], spans[own], prefix) if spans.any() else None
        for vocabulary, run in runs():
            ids = new[numbers[vocabulary][run.ids]]
            writer.add(ids, run.counts, run.rows, run.tfs)
            if positions is not None:
                positions.add(ids, run.counts, run.rows, run.tfs, run.positions)
            done += len(run.rows)
            progress("folding", done, total)
        for each in (writer, positions):
            if each is not None:
                each.close()


def _count(
    folder: Path, prefix: str, numbers: Sequence[Numbers], terms: int, runs: Runs
) -> tuple[Numbers, Numbers, Numbers]:
    """Of each term the documents, the occurrences and, with positions, the lengths of its documents."""
    df, occurrences, spans = (np.zeros(terms, np.int64) for _ in range(3))
    lengths = load_npy(folder / f"{prefix}lengths.npy", mmap_mode="r")
    for vocabulary, run in runs():
        ids = numbers[vocabulary][run.ids]
        df[ids] += run.counts
        occurrences[ids] += run.occurrences
        if len(run.positions):
            spans[ids] += np.add.reduceat(lengths[run.rows], run.starts, dtype=np.int64)
    return df, occurrences, spans


@dataclass(frozen=True)
class Inversion:
    """How documents are inverted: ``stretch`` characters at a time, by ``workers`` (None: all cores).

    ``fields`` are inverted by themselves, too; ``kinds`` are those of columns that are known before.
    """

    analyzer: Analyzer
    workers: int | None = None
    stretch: int = STRETCH
    fields: tuple[str, ...] = ()
    positions: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)

    def open_maker(self, *, alone: bool) -> AbstractContextManager[RunMaker | Workers]:
        """What makes the runs of a segment: this process ``alone``, or others."""
        count = self.workers or count_cores()
        if alone or count == 1 or not self.analyzer.is_portable:
            return nullcontext(RunMaker(self.analyzer, positions=self.positions))
        return Workers(self.analyzer, count, positions=self.positions)


def _make_runs(maker: RunMaker | Workers, stretches: Iterable[list[str]], scratch: Path) -> list[Path]:
    """Write the runs of texts into a new folder."""
    scratch.mkdir(parents=True)
    paths, row = list[Path](), 0
    for part in stretches:
        paths.append(scratch / f"{row}.run")
        maker.make(part, row, paths[-1])
        row += len(part)
    return paths


def build_segment(
    store: DocstoreWriter,
    docs: Iterable[Doc],
    inversion: Inversion,
    *,
    keys: CopyKeys | None = None,
    progress: Progress = silent,
) -> None:
    """Write all files of a segment into the folder of ``store``; ``keys`` those by which copies are found.

    Fields are read from the documents that are stored, once the kinds of all columns are known.
    """
    folder, scratch = store.folder, store.folder / "runs"
    paths: dict[str, list[Path]] = {}
    with ExitStack() as makers:
        with store:
            stored = _store(docs, store, partial(progress, "indexing"), None)
            stretches = _cut_stretches(_read_texts(stored, inversion.analyzer, keys), inversion.stretch)
            first = list(islice(stretches, 2))
            if not first:
                raise DocumentError("there is no document to index")
            # a second process would cost more than it saves
            maker = makers.enter_context(inversion.open_maker(alone=len(first) == 1))
            paths[""] = _make_runs(maker, chain(first, stretches), scratch)
        check_kinds(inversion.fields, {**inversion.kinds, **store.kinds})
        for number, name in enumerate(inversion.fields):
            texts = (inversion.analyzer.mark(doc, doc.field(name)) for doc in Docstore(folder))
            stretches = _cut_stretches(texts, inversion.stretch)
            paths[f"{FIELDS}{number}."] = _make_runs(maker, stretches, scratch / f"{number}")
        vocabularies, owners = maker.finish()
    if keys is not None:
        keys.close()
    following, lists = iter(owners), dict[str, Runs]()
    for prefix, own in paths.items():
        lengths = np.concatenate([Run.load(path)[1] for path in own])
        np.save(folder / f"{prefix}lengths.npy", lengths)
        lists[prefix] = partial(_load_runs, list(zip(islice(following, len(own)), own, strict=True)))
    fold(folder, len(lengths), vocabularies, {"": lists.pop("")}, progress)
    if lists:
        fold(folder, len(lengths), vocabularies, lists, progress)
    shutil.rmtree(scratch)


def _load_runs(paths: Sequence[tuple[int, Path]]) -> Iterator[tuple[int, Run]]:
    return ((owner, Run.load(path)[0]) for owner, path in paths)


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
    all_kept = np.concatenate(kept)
    ends = np.cumsum(list(map(len, kept)))
    new_rows = np.split(np.where(all_kept, np.cumsum(all_kept) - 1, -1), ends[:-1])
    lists = dict[str, Runs]()
    for prefix in segments[0].files:
        files = [segment.files[prefix] for segment in segments]
        lengths = [file.lengths[rows] for file, rows in zip(files, kept, strict=True)]
        np.save(folder / f"{prefix}lengths.npy", np.concatenate(lengths))
        lists[prefix] = partial(_read_all, files, new_rows, piece)
    fold(folder, total, [s.terms.listed for s in segments], {"": lists.pop("")}, progress)
    if WEIGHTS in lists:
        vocabularies = [segment.files[WEIGHTS].terms.listed for segment in segments]
        fold(folder, total, vocabularies, {WEIGHTS: lists.pop(WEIGHTS)}, progress)
    if lists:
        fold(folder, total, [s.fields[0].terms.listed for s in segments], lists, progress)


def _store(
    docs: Iterable[Doc], store: DocstoreWriter, report: Callable[[int, int | None], None], total: int | None
) -> Iterator[Doc]:
    """Store documents and yield them."""
    for number, doc in enumerate(docs, 1):
        store.add(doc)
        yield doc
        if number % _REPORTED == 0:
            report(number, total)


def _read_texts(docs: Iterable[Doc], analyzer: Analyzer, keys: CopyKeys | None) -> Iterator[str]:
    """The texts of documents as they are analysed; their keys are kept."""
    for doc in docs:
        if keys is not None:
            keys.add(doc.full_text)
        yield analyzer.mark(doc)


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


def _read_all(
    files: Sequence[InvertedFile], new_rows: Sequence[Numbers], piece: int
) -> Iterator[tuple[int, Run]]:
    for owner, (file, rows) in enumerate(zip(files, new_rows, strict=True)):
        yield from ((owner, run) for run in _read_runs(file, rows, piece))


def _read_runs(file: InvertedFile, new_rows: Numbers, piece: int) -> Iterator[Run]:
    """The postings of a file by stretches of terms, with the new rows of their documents."""
    offsets, first = file.offsets, 0
    while first < len(offsets) - 1:
        last = max(int(np.searchsorted(offsets, int(offsets[first]) + piece, "right")) - 1, first + 1)
        numbers = np.arange(first, last)
        sizes, held, tfs = file.read(numbers)
        rows = new_rows[held]
        kept = rows >= 0
        terms = np.repeat(numbers if file.numbers is None else file.numbers[numbers], sizes)[kept]
        ids, counts = np.unique(terms, return_counts=True)
        run = Run(ids, counts, rows[kept].astype(np.int32), tfs[kept].astype(np.int32))
        if file.positions is not None:
            every = [file.read_positions(number)[2] for number in numbers.tolist()]
            run = replace(run, positions=np.concatenate(every)[np.repeat(kept, tfs)].astype(np.int32))
        yield run
        first = last


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
