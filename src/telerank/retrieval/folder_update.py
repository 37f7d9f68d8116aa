"""Bringing an index up to date with a folder of files, by the hashes of their contents.

The record of the files decides what is read again. Before a change the contents of the files that change are
made unknown in it, and they are recorded once the change is committed: after a process was killed in between,
these files are read again, and whatever documents they have in the index are replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from telerank.corpus.formats import open_collection
from telerank.corpus.readers.files.folder import (
    FileRecord,
    FolderFiles,
    FolderRecord,
    ScannedFile,
    file_docno,
)
from telerank.errors import CollectionError, IndexFault
from telerank.retrieval.folder_record import read_record, write_record
from telerank.sparse.index import SparseIndex
from telerank.sparse.writer import IndexWriter
from telerank.types import Doc, Progress, silent


@dataclass(frozen=True)
class FolderChanges:
    """What an update did to an index, by the names of files.

    A file is ``moved`` if it has another name than before, and the content of a file that is not in the
    folder any more; ``moved`` has the old name by the new one, and ``gone`` are the others. ``files`` are
    the records of all files now.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    files: Mapping[str, FileRecord] = field(default_factory=dict)


def update_folder(
    folder: str | Path, index: Path, *, workers: int | None = None, progress: Progress = silent
) -> FolderChanges:
    """Bring an index up to date with the folder of files that it was made from; see ``verbs.index``."""
    with IndexWriter(index, workers=workers) as writer:
        record = read_record(index)
        if record is None:
            raise IndexFault(f"{index}: was not made from a folder of files: build it again (--overwrite)")
        files = _open_files(folder, record)
        plan = _Plan.of(record.files, _scan(files, progress))
        if record.files and len(plan.gone) == len(record.files):
            raise CollectionError(
                f"{folder}: has none of the {len(record.files):,} files of {index}: another folder?"
            )
        if not plan.affected:
            return plan.changes(record.files)
        kept = {name: file for name, file in record.files.items() if name not in plan.affected}
        unknown = dict.fromkeys(plan.affected, FileRecord("", 0))
        write_record(index, replace(record, files=dict(sorted({**kept, **unknown}.items()))))
        read = _change(writer, files, plan, progress)
        write_record(index, replace(record, files=dict(sorted({**kept, **read}.items()))))
        return plan.changes({**kept, **read})


def _scan(files: FolderFiles, progress: Progress) -> Iterator[ScannedFile]:
    for number, file in enumerate(files.scan(), 1):
        yield file
        progress("comparing files", number, None)


def _open_files(folder: str | Path, record: FolderRecord) -> FolderFiles:
    collection = open_collection(folder, format=record.collection_format, encoding=record.encoding)
    if collection.files is None:
        raise CollectionError(f"{folder}: not a folder of files")
    return collection.files


@dataclass(frozen=True)
class _Plan:
    """What is to be done with each file: read it, copy its documents from another name, or nothing."""

    to_read: tuple[ScannedFile, ...]
    copies: Mapping[str, tuple[str, FileRecord]]
    """By the new name, the old one, and the record."""
    added: tuple[str, ...]
    changed: tuple[str, ...]
    moved: Mapping[str, str]
    """By the new name, the old one."""
    gone: tuple[str, ...]
    unchanged: tuple[str, ...]

    @classmethod
    def of(cls, before: Mapping[str, FileRecord], now: Iterable[ScannedFile]) -> _Plan:
        scanned = {file.name: file for file in now}
        unchanged = tuple(
            name
            for name, file in scanned.items()
            if name in before and _is_unchanged(before[name], file.record)
        )
        missing = [name for name in before if name not in scanned]
        sources = {before[name].sha256: name for name in before if before[name].documents}
        free: dict[str, list[str]] = defaultdict(list)
        for name in missing:
            free[before[name].sha256].append(name)
        copies, moved = {}, {}
        for name, file in scanned.items():
            if name in before or file.record.problem or file.record.sha256 not in sources:
                continue
            old = free[file.record.sha256].pop(0) if free[file.record.sha256] else ""
            if old:
                moved[name] = old
            source = old or sources[file.record.sha256]
            copies[name] = source, before[source]
        return cls(
            tuple(file for name, file in scanned.items() if name not in {*unchanged, *copies}),
            copies,
            tuple(name for name in scanned if name not in before and name not in moved),
            tuple(name for name in scanned if name in before and name not in unchanged),
            moved,
            tuple(name for name in missing if name not in moved.values()),
            unchanged,
        )

    @property
    def affected(self) -> frozenset[str]:
        """The names whose documents are replaced, added or deleted."""
        return frozenset((*self.added, *self.changed, *self.moved, *self.moved.values(), *self.gone))

    def changes(self, files: Mapping[str, FileRecord]) -> FolderChanges:
        return FolderChanges(self.added, self.changed, self.moved, self.gone, self.unchanged, files)


def _is_unchanged(before: FileRecord, now: FileRecord) -> bool:
    """Whether a file has the content of before, or cannot be opened as before."""
    if now.problem:
        return (before.problem, before.bytes) == (now.problem, now.bytes)
    return before.is_final and before.sha256 == now.sha256


def _change(
    writer: IndexWriter, files: FolderFiles, plan: _Plan, progress: Progress
) -> dict[str, FileRecord]:
    """Replace, add and delete the documents of a plan in one commit; the records of the files."""
    index = SparseIndex(writer.folder)
    copied = {name for name, _ in plan.copies.values()}
    by_file: dict[str, list[Doc]] = defaultdict(list)
    replaced = []
    for doc in index.docs:
        if doc.file in plan.affected:
            replaced.append(doc.docno)
        if doc.file in copied:
            by_file[doc.file].append(doc)
    read: dict[str, FileRecord] = {}
    writer.replace(replaced, _new_docs(files, plan, by_file, read), progress=progress)
    return read


def _new_docs(
    files: FolderFiles, plan: _Plan, by_file: Mapping[str, list[Doc]], read: dict[str, FileRecord]
) -> Iterator[Doc]:
    for name, (old, record) in plan.copies.items():
        read[name] = record
        for doc in by_file[old]:
            docno = file_docno(name) + doc.docno.removeprefix(file_docno(old))
            yield replace(doc, docno=docno, file=name)
    for name, record, docs in files.read(plan.to_read):
        read[name] = record
        yield from docs
