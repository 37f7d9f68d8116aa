"""Writing an index: new segments, marks of deletion, merging; each change is committed whole or not at all.

A change is written beside what is there and becomes the index when ``manifest.json`` is replaced.
Whatever kills a writer leaves the index as it was; the next writer sweeps away what it had begun.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from types import TracebackType
from typing import Self

import filelock
import numpy as np

from telerank.corpus.docnos import Docnos
from telerank.errors import DocumentError, IndexFault, IndexLocked
from telerank.sparse.build import SegmentCounts, build_segment
from telerank.sparse.folder import LOCK, NO_INDEX, SEGMENTS, committed, refuse_others, sweep
from telerank.sparse.index import SparseIndex
from telerank.sparse.manifest import IndexManifest, SegmentEntry, versions
from telerank.sparse.merge import merge_segments
from telerank.stored import MANIFEST, StoredFile, record_files, sync_folder
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

_MOST_SEGMENTS = 32  # each keeps a dozen files open
_NO_SPACE = 1 << 20  # bytes


def build_index(
    docs: Iterable[Doc],
    folder: str | Path,
    *,
    analyzer: Analyzer | str = "standard",
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
) -> SparseIndex:
    """Index documents into a folder that has no index yet, or (``overwrite``) instead of the one it has.

    ``analyzer`` may be a text form; ``workers`` None uses every core.

    Raises
    ------
    IndexFault
        where the folder holds an index already, or something else.
    IndexLocked
        where another process writes to it.
    DocumentError
        where there is no document, or one cannot be stored.
    """
    chain = Analyzer.parse(analyzer) if isinstance(analyzer, str) else analyzer
    if not overwrite and Path(folder, MANIFEST).is_file():
        raise IndexFault(
            f"{folder}: holds an index already: overwrite it (--overwrite), or add to it (index add)"
        )
    with IndexWriter(folder, chain, overwrite=overwrite, workers=workers) as writer:
        writer.add(docs, progress=progress)
    return SparseIndex(folder)


class IndexWriter:
    """The one writer of an index; every method commits what it did before it returns.

    Without an ``analyzer`` the index must be there, and its own is used. With ``overwrite`` the first
    :meth:`add` takes the place of everything that was there.

    Raises
    ------
    AnalyzerError
        where the index was built with another analyzer.
    IndexFault
        where there is no index to write to, or the folder holds something else or cannot be written to.
    IndexLocked
        where another writer is at work.
    """

    def __init__(
        self,
        folder: str | Path,
        analyzer: Analyzer | None = None,
        *,
        overwrite: bool = False,
        workers: int | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self._workers = workers
        self._lock = filelock.FileLock(self.folder / LOCK, timeout=0, thread_local=False)
        try:
            refuse_others(self.folder)
            if analyzer is None:
                IndexManifest.read(self.folder)  # which must be there
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self.manifest = self._opened(analyzer, overwrite)
            (self.folder / SEGMENTS).mkdir(exist_ok=True)
            sweep(self.folder)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, filelock.Timeout):
                raise IndexLocked(f"{self.folder}: another writer is at work on this index") from None
            if isinstance(error, OSError):
                raise IndexFault(f"{self.folder}: cannot be written to: {error}") from error
            raise

    def add(self, docs: Iterable[Doc], *, update: bool = False, progress: Progress = silent) -> int:
        """Index documents as a new segment; how many. With ``update`` they replace those of the same docno.

        Beyond 32 segments the smaller ones are merged.

        Raises
        ------
        DocumentError
            where there is no document, one cannot be stored, or (not updating) a docno is there already.
        """
        analyzer = Analyzer.parse(self.manifest.analyzer)
        with self._change():
            new = self._new_segment()
            counts = build_segment(new, docs, analyzer, workers=self._workers, progress=progress)
            there = self._doubles(new)
            if there and not update:
                raise DocumentError(
                    f"document {there[0]!r} is in the index already ({len(there)} of the new ones are)"
                )
            self._commit((*self._marked(there), _entry(new, counts)))
        if len(self.manifest.segments) > _MOST_SEGMENTS:
            self._fold(_first_small(self.manifest.segments), progress)
        return counts.documents

    def delete(self, docnos: Iterable[str]) -> int:
        """Mark documents as deleted; how many.

        Raises
        ------
        DocumentError
            where a docno is not in the index; then none is marked.
        """
        wanted = list(dict.fromkeys(docnos))
        self._require_documents()
        with self._change():
            docs = SparseIndex(self.folder).docs
            missing = [docno for docno in wanted if docno not in docs]
            if missing:
                raise DocumentError(
                    f"no document {missing[0]!r} in the index ({len(missing)} of {len(wanted)} are not)"
                )
            self._commit(self._marked(wanted))
        return len(wanted)

    def merge(self, progress: Progress = silent) -> None:
        """Fold all segments into one, without what is deleted; scores then no longer count it.

        Raises
        ------
        DocumentError
            where every document is deleted.
        """
        self._require_documents()
        self._fold(0, progress)

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, analyzer: Analyzer | None, overwrite: bool) -> IndexManifest:
        """What changes begin from: the index, or one without documents."""
        if not overwrite and (self.folder / MANIFEST).is_file():
            index = SparseIndex(self.folder)
            index.require(analyzer or index.analyzer)
            return index.manifest
        try:
            there = committed(self.folder)
        except IndexFault:  # what cannot be read can be overwritten
            if analyzer is None:
                raise
            there = NO_INDEX
        chain = analyzer or Analyzer.parse(there.analyzer)
        return IndexManifest(str(chain), chain.fingerprint(), (), there.generation, versions())

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A change to the index: where it fails before it is committed, what it wrote goes."""
        if not self._lock.is_locked:
            raise IndexFault(f"{self.folder}: this writer is closed")
        try:
            yield
        except OSError as error:
            # numpy names no reason where it could not write
            full = error.errno == ENOSPC or shutil.disk_usage(self.folder).free < _NO_SPACE
            why = "no space is left on the disk" if full else str(error)
            self._recover()
            raise IndexFault(f"{self.folder}: the change failed: {why}") from error
        except BaseException:
            self._recover()
            raise

    def _require_documents(self) -> None:
        if not self.manifest.segments:
            raise IndexFault(f"{self.folder}: there are no documents yet")

    def _new_segment(self) -> Path:
        """A folder for a segment's files."""
        new = self.folder / SEGMENTS / uuid.uuid4().hex[:12]
        new.mkdir()
        return new

    def _commit(self, segments: tuple[SegmentEntry, ...]) -> None:
        sync_folder(self.folder / SEGMENTS)
        manifest = self.manifest.next(segments)
        manifest.write(self.folder)
        self.manifest = manifest
        sweep(self.folder)

    def _recover(self) -> None:
        """After a failure: the index is what is on the disk, be it before the change or after it."""
        with suppress(IndexFault, OSError):
            there = committed(self.folder)
            if there.generation > self.manifest.generation:
                self.manifest = there
            sweep(self.folder)

    def _fold(self, first: int, progress: Progress) -> None:
        """Merge the segments from the ``first`` on."""
        kept, old = self.manifest.segments[:first], self.manifest.segments[first:]
        with self._change():
            if len(old) == 1 and not old[0].deletions:
                return
            new = self._new_segment()
            counts = merge_segments(new, SparseIndex(self.folder).segments[first:], progress)
            self._commit((*kept, _entry(new, counts)))

    def _doubles(self, new: Path) -> list[str]:
        """Docnos of the new segment that the index holds already."""
        if not self.manifest.segments:
            return []
        docs = SparseIndex(self.folder).docs
        return [docno for docno in Docnos.open(new) if docno in docs]

    def _marked(self, docnos: Iterable[str]) -> tuple[SegmentEntry, ...]:
        """The segments' entries with these documents marked as deleted, the marks written."""
        entries = list(self.manifest.segments)
        if not entries:
            return ()
        index = SparseIndex(self.folder)
        rows: dict[int, list[int]] = {}
        for docno in docnos:
            number, row = index.docs.place(docno)
            rows.setdefault(number, []).append(row)
        for number, gone in rows.items():
            entries[number] = self._mark(entries[number], index.segments[number].deleted, gone)
        return tuple(entries)

    def _mark(self, entry: SegmentEntry, before: np.ndarray, gone: list[int]) -> SegmentEntry:
        marks = np.zeros(entry.documents, np.bool_)
        marks[: len(before)] = before
        marks[gone] = True
        folder = self.folder / SEGMENTS / entry.name
        name = f"deleted.{self.manifest.generation + 1}.npy"
        np.save(folder / name, marks)
        sync_folder(folder)
        files = {key: file for key, file in entry.files.items() if key != entry.deleted}
        files[name] = StoredFile.record(folder / name)
        return replace(entry, files=files, deleted=name, deletions=int(marks.sum()))


def _first_small(entries: tuple[SegmentEntry, ...]) -> int:
    """The first segment that is no larger than all after it: what is larger is written again more rarely."""
    after = sum(entry.documents for entry in entries)
    for number, entry in enumerate(entries):
        after -= entry.documents
        if entry.documents <= after:
            return number
    return 0


def _entry(folder: Path, counts: SegmentCounts) -> SegmentEntry:
    files = record_files(folder)
    return SegmentEntry(folder.name, counts.documents, counts.nonempty, counts.tokens, files)
