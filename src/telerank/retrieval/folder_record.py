"""What an index of a folder of files was made from: ``files/manifest.json`` in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.readers.files.folder import FileRecord, FolderRecord, warn_unread
from telerank.drafts import replace_file
from telerank.errors import DocumentError, IndexFault
from telerank.sparse.manifest import FILES
from telerank.stored import MANIFEST
from telerank.types import Doc


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
    before = record.read_bytes() if _is_record(index) else None
    if before is not None:
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


def _is_record(index: Path) -> bool:
    """Whether a folder has a record, and not something else of that name."""
    try:
        return read_record(index) is not None
    except IndexFault:
        return False
