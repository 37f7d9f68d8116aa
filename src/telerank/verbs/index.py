"""Building, changing and describing an index; its analyzer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection
from telerank.corpus.readers.files.folder import warn_unread
from telerank.dense.manifest import describe_vectors
from telerank.errors import IndexFault
from telerank.retrieval.folder_update import read_record, recorded_docs, replacing_record
from telerank.retrieval.index import Index
from telerank.show.progress import show_progress
from telerank.sparse.index import has_index
from telerank.text import Analyzer
from telerank.types import Doc, ProgressSetting

if TYPE_CHECKING:
    from telerank.corpus.readers.files.folder import FileRecord
    from telerank.retrieval.folder_update import FolderChanges
    from telerank.sparse.writer import IndexWriter

# A collection or its path, documents, or texts by docno.
Documents: TypeAlias = Collection | str | Path | Iterable[Doc] | Mapping[str, str]
_COMPARED = 1000  # documents between two calls of progress


def index(
    docs: Documents,
    folder: str | Path,
    *,
    analyzer: Analyzer | str = "standard",
    overwrite: bool = False,
    workers: int | None = None,
    progress: ProgressSetting = None,
) -> Index:
    """Index a collection (or the path of one), documents, or a mapping of texts by docno into a folder.

    ``analyzer`` is ``none``, ``standard``, ``english``, ``french`` or a chain of steps. ``workers`` is the
    number of processes, by default one per core. An index of the same documents and analyzer that is there is
    returned as it is: the documents are compared one by one, in their order.

    Of a folder of files the index keeps what :func:`update_index` needs. Warnings
    (:class:`~telerank.errors.UnreadFiles`) name the files that were not read.

    >>> index = tr.index(tr.piaf(), "piaf-index", analyzer="french")

    Raises
    ------
    IndexFault
        If the folder holds another index already (and ``overwrite`` is not set), or something else.
    IndexLocked
        If another process writes to it.
    DocumentError
        If there is no document, or one cannot be stored.
    """
    from telerank.sparse.writer import build_index

    opened = open_collection(docs) if isinstance(docs, str | Path) else docs
    if not overwrite and has_index(Path(folder)):
        return _require_same(Index(folder), opened, analyzer, progress)
    files: dict[str, FileRecord] = {}
    settings: dict[str, Any] = {"analyzer": analyzer, "overwrite": overwrite, "workers": workers}
    total, stream = stream_documents(opened, files)
    with show_progress(progress, total) as shown, replacing_record(Path(folder), opened, files):
        build_index(stream, folder, **settings, progress=shown)
    return Index(folder)


def _require_same(
    index: Index, docs: Documents, analyzer: Analyzer | str, progress: ProgressSetting
) -> Index:
    """The index, if it has these documents in their order, and this analyzer."""
    chain = Analyzer.parse(analyzer) if isinstance(analyzer, str) else analyzer
    if index.analyzer != chain:
        built = f"holds an index already, built with the analyzer {index.analyzer}, not {chain}"
        raise IndexFault(f"{index.folder}: {built}: overwrite it (--overwrite)")
    total, stream = stream_documents(docs)
    with show_progress(progress, total) as shown:
        for number, (present, doc) in enumerate(zip_longest(index.docs, stream)):
            if present != doc:
                raise IndexFault(
                    f"{index.folder}: holds an index of other documents already: "
                    "overwrite it (--overwrite), or add to it (index add)"
                )
            if number % _COMPARED == 0:
                shown("comparing documents", number, None)
    return index


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Index | Collection:
    """The index in a folder, or else the collection at a path or of an id, as ``telerank.collection``."""
    if format is None and (Path(path) / "segments").is_dir():
        return Index(path)
    return open_collection(path, format=format, encoding=encoding)


def add_documents(
    index: Index | str | Path,
    docs: Documents,
    *,
    update: bool = False,
    workers: int | None = None,
    progress: ProgressSetting = None,
) -> int:
    """Add documents to an index as a new segment; the number of documents.

    With ``update`` they replace documents of the same docno.

    Raises
    ------
    IndexFault
        If there is no index, or it cannot be written to.
    DocumentError
        If there is no document, one cannot be stored, or a docno is in the index (and ``update`` is not set).
    """
    total, stream = stream_documents(docs)
    with (
        _open_writer(index, workers) as writer,
        show_progress(progress, total) as shown,
    ):
        return writer.add(stream, update=update, progress=shown)


def update_index(
    folder: str | Path,
    index: Index | str | Path,
    *,
    workers: int | None = None,
    progress: ProgressSetting = None,
) -> FolderChanges:
    """Bring an index up to date with the folder of files that it was made from.

    Files are compared by the hashes of their contents, so only those that are new or have changed are read;
    of a file with another name the documents are kept under it. One commit makes all changes. Warnings
    (:class:`~telerank.errors.UnreadFiles`) name the files that were not read.

    Raises
    ------
    IndexFault
        If there is no index, it was not made from a folder of files, or it cannot be written to.
    CollectionError
        If the folder has none of the index's files.
    DocumentError
        If a document cannot be stored.
    MissingExtra
        If what reads a kind of files is not installed.
    """
    from telerank.retrieval.folder_update import update_folder

    with show_progress(progress) as shown:
        changes = update_folder(folder, _folder(index), workers=workers, progress=shown)
    warn_unread(changes.files)
    return changes


def delete_documents(index: Index | str | Path, docnos: Iterable[str]) -> int:
    """Delete documents from an index; the number of documents.

    Raises
    ------
    DocumentError
        If a docno is not in the index; then none is deleted.
    """
    with _open_writer(index) as writer:
        return writer.delete(docnos)


def merge_segments(index: Index | str | Path, *, progress: ProgressSetting = None) -> None:
    """Merge all segments of an index into one, without the deleted documents."""
    with _open_writer(index) as writer, show_progress(progress) as shown:
        writer.merge(shown)


def verify_index(index: Index | str | Path, *, progress: ProgressSetting = None) -> int:
    """Compare every file of an index with its checksum; the number of files.

    Raises
    ------
    IndexDamaged
        If a file is missing or damaged; the message names it.
    """
    opened = Index(_folder(index)).sparse
    with show_progress(progress) as shown:
        opened.verify(shown)
    return sum(len(segment.files) for segment in opened.manifest.segments)


def describe_index(index: Index | str | Path) -> dict[str, int | float | str | dict[str, str]]:
    """Analyzer, counts and sizes of an index, by name; its vectors and its saved pipelines."""
    opened = index if isinstance(index, Index) else Index(index)
    facts: dict[str, Any] = {}
    if opened.has_texts:
        sparse = opened.sparse
        entries = sparse.manifest.segments
        files = [(name, file.bytes) for entry in entries for name, file in entry.files.items()]
        facts = {
            "analyzer": sparse.manifest.analyzer,
            "documents": len(sparse),
            "deleted, not yet merged": sum(entry.deletions for entry in entries),
            "documents with a term": sparse.statistics.documents,
            "terms in all": sparse.statistics.tokens,
            "average length": round(sparse.statistics.average_length, 2),
            "segments": len(entries),
            "bytes of texts": sum(size for name, size in files if name.startswith("docs.")),
            "bytes of the rest": sum(size for name, size in files if not name.startswith("docs.")),
        }
    if (record := read_record(opened.folder)) is not None:
        unread = {
            name: f"{file.problem} ({file.reason})" if file.reason else file.problem
            for name, file in record.files.items()
            if file.problem
        }
        facts |= {"files": len(record.files), "files not read": unread}
    vectors = {name: describe_vectors(folder) for name, folder in opened.vectors.items()}
    return {**facts, "vectors": vectors, "pipelines": opened.pipelines}


def _open_writer(index: Index | str | Path, workers: int | None = None) -> IndexWriter:
    from telerank.sparse.writer import IndexWriter  # here: to describe an index needs no writer

    return IndexWriter(_folder(index), workers=workers)


def _folder(index: Index | str | Path) -> Path:
    return index.folder if isinstance(index, Index) else Path(index)


def stream_documents(
    docs: Documents | Index, files: dict[str, FileRecord] | None = None
) -> tuple[int | None, Iterator[Doc]]:
    """The number of documents, if it is known without reading them, and the documents.

    If they are files, ``files`` gets the record of each once it was read.
    """
    if isinstance(docs, Index):
        return len(docs), iter(docs.docs)
    if isinstance(docs, str | Path):
        docs = open_collection(docs)
    if isinstance(docs, Collection):
        return docs.size, docs.docs() if files is None else recorded_docs(docs, files)
    if isinstance(docs, Mapping):
        return len(docs), (Doc(docno, text) for docno, text in docs.items())
    return None, iter(docs)
