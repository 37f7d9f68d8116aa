"""Building one segment from a stream of documents, in bounded memory and on all cores.

The stream is cut into stretches of 8 M characters. A worker process analyses a stretch and inverts it into a
run (:mod:`telerank.sparse.runs`), while this process reads on and writes the texts; at the end the runs are
folded (:mod:`telerank.sparse.fold`). Memory does not depend on the size of the corpus: about 200 MB for each
process besides its vocabulary (about 150 bytes a distinct term), and the sorting of the docnos.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from telerank.corpus.docstore import DocstoreWriter
from telerank.errors import DocumentError
from telerank.sparse.fold import fold
from telerank.sparse.runs import Run, RunMaker
from telerank.sparse.worker import Workers
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

_STRETCH = 8 << 20  # characters
_REPORTED = 1000  # documents between two calls of progress


@dataclass(frozen=True)
class SegmentCounts:
    """The counts that a segment adds to the statistics of its index."""

    documents: int
    nonempty: int
    tokens: int


class _Maker(Protocol):
    def make(self, texts: list[str], first_row: int, path: Path) -> None: ...


def build_segment(
    folder: Path,
    docs: Iterable[Doc],
    analyzer: Analyzer,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> SegmentCounts:
    """Write all files of a segment into an empty folder; with ``workers`` None every core is used."""
    count = workers or count_cores()
    scratch = folder / "runs"
    scratch.mkdir()
    with DocstoreWriter(folder) as store:
        stretches = _cut_stretches(_store(docs, store, progress))
        first = next(stretches, None)
        if first is None:
            raise DocumentError("there is no document to index")
        second = next(stretches, None)
        rest = ([first] if second is None else [first, second], stretches)
        chain = (stretch for part in rest for stretch in part)
        if count == 1 or second is None:  # a second process would cost more than it saves
            maker = RunMaker(analyzer)
            paths = _make_all(maker, chain, scratch)
            vocabularies, owners = [maker.vocabulary], [0] * len(paths)
        else:
            with Workers(analyzer, count) as pool:
                paths = _make_all(pool, chain, scratch)
                vocabularies, owners = pool.finish()
    lengths = np.concatenate([Run.load(path)[1] for path in paths])
    np.save(folder / "lengths.npy", lengths)

    def runs() -> Iterator[tuple[int, Run]]:
        return ((owner, Run.load(path)[0]) for owner, path in zip(owners, paths, strict=True))

    fold(folder, vocabularies, runs, progress)
    for path in paths:
        path.unlink()
    scratch.rmdir()
    return SegmentCounts(len(lengths), int((lengths > 0).sum()), int(lengths.sum(dtype=np.int64)))


def _make_all(maker: _Maker, stretches: Iterable[list[str]], scratch: Path) -> list[Path]:
    paths, row = [], 0
    for texts in stretches:
        paths.append(scratch / f"{row}.run")
        maker.make(texts, row, paths[-1])
        row += len(texts)
    return paths


def _store(docs: Iterable[Doc], store: DocstoreWriter, progress: Progress) -> Iterator[str]:
    """Store documents and yield their texts."""
    for number, doc in enumerate(docs, 1):
        store.add(doc)
        yield doc.full_text
        if number % _REPORTED == 0:
            progress("indexing", number, None)


def _cut_stretches(texts: Iterable[str]) -> Iterator[list[str]]:
    stretch: list[str] = []
    room = _STRETCH
    for text in texts:
        stretch.append(text)
        room -= len(text) + 1
        if room <= 0:
            yield stretch
            stretch, room = [], _STRETCH
    if stretch:
        yield stretch


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
