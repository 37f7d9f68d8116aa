"""An index of a folder of files: what it was made from, and bringing it up to date by the files' hashes.

The record of the files, ``files/manifest.json`` in the folder of the index, decides what is read again.
Before a change the contents of the files that change are made unknown in it, and they are recorded once the
change is committed: after a process was killed in between, these files are read again, and whatever documents
they have in the index are replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from telerank.columns.kinds import conform_doc
from telerank.corpus.collection import Collection
from telerank.corpus.derived.predicted import EXPANSION, counting_unexpanded
from telerank.corpus.formats import open_collection
from telerank.corpus.readers.files.folder import (
    FileContents,
    FileRecord,
    FolderRecord,
    ScannedFile,
    file_docno,
    folders_column,
    warn_unread,
)
from telerank.drafts import replace_file
from telerank.errors import CollectionError, DocumentError, IndexFault, count_noun
from telerank.sparse.index import FILES, IndexDocs, SparseIndex
from telerank.sparse.weights.writing import WeightSource
from telerank.sparse.writer import BeforeCommit, IndexWriter
from telerank.stored import MANIFEST
from telerank.types import Doc, Progress, silent


def read_record(index: Path) -> FolderRecord | None:
    """The record of the files that an index was made from; None if it was made otherwise.

    Raises
    ------
    IndexDamaged
        If it cannot be read.
    """
    return FolderRecord.read(index / FILES) if (index / FILES / MANIFEST).is_file() else None


def write_record(index: Path, record: FolderRecord) -> None:
    """Replace the record of an index."""
    (index / FILES).mkdir(exist_ok=True)
    record.write(index / FILES)


def recorded_docs(collection: Collection, files: dict[str, FileRecord]) -> Iterator[Doc]:
    """The documents of a collection; ``files`` gets the record of each file once it was read."""
    if collection.files is None:
        yield from collection.docs()
        return
    for name, record, docs in collection.files.read(collection.files.scan()):
        files[name] = record
        yield from docs


@contextmanager
def replacing_record(index: Path, collection: object, files: dict[str, FileRecord]) -> Iterator[None]:
    """Build an index in the block, then replace its record by that of ``files``, if it is of such a folder.

    There is no record while documents change; if the block fails, the old one is put back. At the end
    warnings name the files that were not read.
    """
    record = index / FILES / MANIFEST
    before = None
    with suppress(IndexFault):  # something else of that name stays
        if read_record(index) is not None:
            before = record.read_bytes()
            record.unlink()
    try:
        yield
    except BaseException as error:
        if before is not None:
            replace_file(record, before)
        if isinstance(error, DocumentError):  # there may be no document because no file can be read
            warn_unread(files)
        raise
    if isinstance(collection, Collection) and collection.files is not None:
        write_record(
            index, FolderRecord(collection.format, collection.files.encoding, dict(sorted(files.items())))
        )
    warn_unread(files)


@dataclass(frozen=True)
class FolderChanges:
    """What an update did to an index, by the names of files.

    A file is ``moved`` if it has another name than before, and the content of a file that is not in the
    folder any more; ``moved`` has the old name by the new one, and ``gone`` are the others. ``renamed`` are
    files whose passages had numbers, as telerank once named them: they are read again, and named by their
    contents. ``written`` counts the documents that were written: of a file that has changed only those whose
    text, title, pages or headings have. ``files`` are the records of all files now.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    written: int = 0
    files: Mapping[str, FileRecord] = field(default_factory=dict)

    def __str__(self) -> str:
        names = ("added", "changed", "moved", "gone", "unchanged")
        counts = {name: len(getattr(self, name)) for name in names}
        counts["unchanged"] += len(self.renamed)
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        return f"{listed}; {count_noun(self.written, 'document')} written"

    @property
    def affected(self) -> frozenset[str]:
        """The names whose documents are replaced, added or deleted."""
        old = self.moved.values()
        return frozenset((*self.added, *self.changed, *self.moved, *old, *self.gone, *self.renamed))


def update_folder(
    folder: str | Path,
    index: Path,
    *,
    weights: WeightSource | None = None,
    workers: int | None = None,
    before_commit: BeforeCommit | None = None,
    progress: Progress = silent,
) -> FolderChanges:
    """Bring an index up to date with the folder of files that it was made from; see ``verbs.index``."""
    with IndexWriter(index, workers=workers) as writer:
        writer.before_commit = before_commit
        record = read_record(index)
        if record is None:
            raise IndexFault(f"{index}: was not made from a folder of files: build it again (overwrite=True)")
        collection = open_collection(folder, format=record.collection_format, encoding=record.encoding)
        if (files := collection.files) is None:
            raise CollectionError(f"{folder}: not a folder of files")
        scanned = {}
        for number, file in enumerate(files.scan(), 1):
            scanned[file.name] = file
            progress("comparing files", number, None)
        changes, copies = _compare(record.files, scanned)
        stayed = (*changes.changed, *changes.renamed, *changes.unchanged)
        if record.files and not stayed and len(changes.gone) > len(changes.moved):
            others = f" ({len(changes.moved):,} by other names)" if changes.moved else ""
            known = count_noun(len(record.files), "file")
            raise CollectionError(f"{folder}: has none of the {known} of {index}{others}: another folder?")
        if not changes.affected:
            return replace(changes, files=record.files)
        kept = {name: file for name, file in record.files.items() if name not in changes.affected}
        unknown = dict.fromkeys(changes.affected, FileRecord("", 0))
        write_record(index, replace(record, files=dict(sorted({**kept, **unknown}.items()))))
        present = SparseIndex(index).stored_docs
        docnos = {name: _find_docnos(present, name) for name in changes.affected | _sources(copies)}
        # a file whose documents were deleted alone is read again under its other name
        copies = {name: copy for name, copy in copies.items() if len(docnos[copy[0]]) == copy[1].documents}
        to_read = [file for name, file in scanned.items() if name in changes.affected and name not in copies]
        stale = {docno for name in changes.affected for docno in docnos[name]}
        read: dict[str, FileRecord] = {}
        copied = _copy_docs(present, copies, docnos, read)
        new: Iterator[Doc] = chain(copied, _changed_docs(present, files.read(to_read), stale, read))
        if EXPANSION in present.index.fields:
            new = counting_unexpanded(new, index)
        if weights is not None:
            writer.choose_weights(weights)
        written = writer.replace(stale, new, progress=progress)
        write_record(index, replace(record, files=dict(sorted({**kept, **read}.items()))))
        return replace(changes, files={**kept, **read}, written=written)


Copies = Mapping[str, tuple[str, FileRecord]]  # by the new name of a file the old one, and its record


def _compare(
    before: Mapping[str, FileRecord], scanned: Mapping[str, ScannedFile]
) -> tuple[FolderChanges, Copies]:
    """What is to be done, and the files whose documents are those of a file that was read before."""
    same = dict.fromkeys(
        name for name, file in scanned.items() if name in before and _is_unchanged(before[name], file.record)
    )
    missing = [name for name in before if name not in scanned]
    numbered = {name for name, file in before.items() if file.documents > 1 and not file.passages}
    sources = {file.sha256: name for name, file in before.items() if file.documents}
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
        if source not in numbered:
            copies[name] = source, before[source]
    changes = FolderChanges(
        tuple(name for name in scanned if name not in before and name not in moved),
        tuple(name for name in scanned if name in before and name not in same),
        moved,
        tuple(name for name in missing if name not in moved.values()),
        tuple(name for name in same if name in numbered),
        tuple(name for name in same if name not in numbered),
    )
    return changes, copies


def _is_unchanged(before: FileRecord, now: FileRecord) -> bool:
    """Whether a file has the content of before, or cannot be opened as before."""
    if now.problem:
        return (before.problem, before.bytes) == (now.problem, now.bytes)
    return before.is_final and before.sha256 == now.sha256


def _sources(copies: Copies) -> frozenset[str]:
    return frozenset(old for old, _ in copies.values())


def _find_docnos(docs: IndexDocs, file: str) -> list[str]:
    """The docnos of the documents that were read from a file."""
    return [docno for docno in docs.of_file(file_docno(file)) if docs[docno].file == file]


def _copy_docs(
    present: IndexDocs,
    copies: Copies,
    docnos: Mapping[str, Sequence[str]],
    records: dict[str, FileRecord],
) -> Iterator[Doc]:
    """The documents of files that are copies of others; ``records`` gets the record of each."""
    for name, (old, record) in copies.items():
        records[name] = record
        for docno in docnos[old]:
            new = file_docno(name) + docno.removeprefix(file_docno(old))
            doc = present[docno]
            own = {key: value for key, value in doc.columns.items() if key != "folders"}
            yield replace(doc, docno=new, file=name, columns={**own, **folders_column(name)})


def _changed_docs(
    present: IndexDocs, contents: Iterable[FileContents], stale: set[str], records: dict[str, FileRecord]
) -> Iterator[Doc]:
    """The documents of files that are not in the index as they are; those that are leave ``stale``."""
    for name, record, docs in contents:
        records[name] = record
        for own in docs:
            doc = _keep_queries(own, present)
            conforming = conform_doc(doc, present.index.manifest.columns)
            if doc.docno in stale and present[doc.docno] == conforming:
                stale.remove(doc.docno)
            else:
                yield doc


def _keep_queries(doc: Doc, present: IndexDocs) -> Doc:
    """The document, with the queries that were predicted for the same text."""
    if EXPANSION not in present.index.fields or EXPANSION in doc.columns:  # a column of the file's own
        return doc
    before = present.get(doc.docno)
    if before is None or before.text != doc.text or EXPANSION not in before.columns:
        return doc
    return replace(doc, columns={**doc.columns, EXPANSION: before.columns[EXPANSION]})
