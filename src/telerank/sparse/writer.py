"""Writing an index: new segments, marks of deletion, merging; each change is committed whole or not at all.

A change is written beside what is there and becomes the index when ``manifest.json`` is replaced.
Whatever kills a writer leaves the index as it was; the next writer sweeps away what it had begun.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

import filelock
import numpy as np

from telerank.corpus.docnos import Docnos
from telerank.errors import DocumentError, IndexFault, IndexLocked
from telerank.sparse import manifest as manifests
from telerank.sparse.build import Counts, build_segment
from telerank.sparse.index import Index
from telerank.sparse.manifest import Manifest, SegmentEntry
from telerank.sparse.merge import merge_segments
from telerank.text import Analyzer
from telerank.types import Doc, Progress, silent

_LOCK = "write.lock"
_SEGMENTS = "segments"


def build_index(
    docs: Iterable[Doc],
    folder: str | Path,
    *,
    analyzer: Analyzer | str = "standard",
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
) -> Index:
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
    with IndexWriter(folder, chain, overwrite=overwrite, workers=workers) as writer:
        if writer.manifest.segments and not overwrite:
            raise IndexFault(f"{folder}: holds an index already; say so to overwrite it, or add to it")
        writer.add(docs, progress=progress)
    return Index(folder)


class IndexWriter:
    """The one writer of an index; every method commits what it did before it returns.

    Without an ``analyzer`` the index must be there, and its own is used. With ``overwrite`` the first
    :meth:`add` takes the place of everything that was there.

    Raises
    ------
    AnalyzerError
        where the index was built with another analyzer.
    """

    def __init__(
        self,
        folder: str | Path,
        analyzer: Analyzer | None = None,
        *,
        overwrite: bool = False,
        workers: int | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._workers = workers
        self._overwrite = overwrite
        self._prepare(analyzer)
        self._lock = filelock.FileLock(self.folder / _LOCK, timeout=0)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise IndexLocked(f"{self.folder}: another process is writing to this index") from None
        try:
            self.manifest = self._opened(analyzer)
            self._sweep()
        except BaseException:
            self._lock.release()
            raise

    def add(self, docs: Iterable[Doc], *, update: bool = False, progress: Progress = silent) -> int:
        """Index documents as a new segment; how many. With ``update`` they replace those of the same docno.

        Raises
        ------
        DocumentError
            where there is no document, one cannot be stored, or (not updating) a docno is there already.
        """
        analyzer = Analyzer.parse(self.manifest.analyzer)
        with self._new_segment() as new:
            counts = build_segment(new, docs, analyzer, workers=self._workers, progress=progress)
            there = [] if self._overwrite else self._doubles(new)
            if there and not update:
                raise DocumentError(
                    f"document {there[0]!r} is in the index already ({len(there)} of the new ones are)"
                )
            old = () if self._overwrite else self._marked(there)
            self._commit((*old, _entry(new, counts)))
        self._overwrite = False
        return counts.documents

    def delete(self, docnos: Iterable[str]) -> int:
        """Mark documents as deleted; how many.

        Raises
        ------
        DocumentError
            where a docno is not in the index; then none is marked.
        """
        wanted = list(dict.fromkeys(docnos))
        docs = Index(self.folder).docs
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
        index = Index(self.folder)
        if len(index.segments) == 1 and not index.manifest.segments[0].deletions:
            return
        with self._new_segment() as new:
            counts = merge_segments(new, index.segments, progress)
            self._commit((_entry(new, counts),))

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, analyzer: Analyzer | None) -> None:
        """See that the folder may hold an index, and is there."""
        ours = {manifests.NAME, f"{manifests.NAME}.new", _LOCK, _SEGMENTS}
        if self.folder.exists() and not self.folder.is_dir():
            raise IndexFault(f"{self.folder}: is a file, not a folder")
        if analyzer is None and not (self.folder / manifests.NAME).is_file():
            raise IndexFault(f"{self.folder}: no index here ({manifests.NAME} is missing)")
        if self.folder.is_dir():
            others = [path.name for path in self.folder.iterdir() if path.name not in ours]
            if others:
                raise IndexFault(
                    f"{self.folder}: holds other things ({others[0]}); an index needs a folder of its own"
                )
        (self.folder / _SEGMENTS).mkdir(parents=True, exist_ok=True)

    def _opened(self, analyzer: Analyzer | None) -> Manifest:
        there = (self.folder / manifests.NAME).is_file()
        if not there:
            return Manifest(str(analyzer), built_with=_versions())
        manifest = Manifest.read(self.folder)
        if analyzer is not None and self._overwrite:
            return replace(manifest, analyzer=str(analyzer), built_with=_versions())
        if analyzer is not None:
            Index(self.folder).require(analyzer)
        return manifest

    @contextmanager
    def _new_segment(self) -> Iterator[Path]:
        """A folder for a segment's files, which goes if they are not finished."""
        new = self.folder / _SEGMENTS / uuid.uuid4().hex[:12]
        new.mkdir()
        try:
            yield new
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _commit(self, segments: tuple[SegmentEntry, ...]) -> None:
        self.manifest = self.manifest.next(segments)
        self.manifest.write(self.folder)
        self._sweep()

    def _sweep(self) -> None:
        """Remove what the manifest does not name: what was replaced, what a killed writer left."""
        named = {entry.name: set(entry.files) for entry in self._on_disk().segments}
        for folder in (self.folder / _SEGMENTS).iterdir():
            if folder.name not in named:
                shutil.rmtree(folder)
                continue
            for path in folder.iterdir():
                if path.name not in named[folder.name]:
                    path.unlink()

    def _on_disk(self) -> Manifest:
        return Manifest.read(self.folder) if (self.folder / manifests.NAME).is_file() else Manifest("")

    def _doubles(self, new: Path) -> list[str]:
        """Docnos of the new segment that the index holds already."""
        if not self.manifest.segments:
            return []
        docs = Index(self.folder).docs
        return [docno for docno in Docnos.open(new) if docno in docs]

    def _marked(self, docnos: Iterable[str]) -> tuple[SegmentEntry, ...]:
        """The segments' entries with these documents marked as deleted, the marks written."""
        entries = list(self.manifest.segments)
        if not entries:
            return ()
        index = Index(self.folder)
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
        folder = self.folder / _SEGMENTS / entry.name
        name = f"deleted.{self.manifest.generation + 1}.npy"
        np.save(folder / name, marks)
        files = {key: part for key, part in entry.files.items() if key != entry.deleted}
        files[name] = manifests.part(folder / name)
        return replace(entry, files=files, deleted=name, deletions=int(marks.sum()))


def _entry(folder: Path, counts: Counts) -> SegmentEntry:
    return SegmentEntry(
        folder.name, counts.documents, counts.nonempty, counts.tokens, manifests.parts(folder)
    )


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("telerank", "numpy", "numba", "PyStemmer")}
