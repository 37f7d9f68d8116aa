"""The texts of a corpus by docno or by row, memory-mapped: ``docs.arrow`` beside the files of :mod:`.docnos`.

``docs.arrow`` is an Arrow IPC file with the columns ``text``, ``title``, ``url``, ``file`` and ``marks``, one
document a row, in the order of ``docnos.bin``. The marks are JSON, ``[[start, page, heading], …]``; files
written before there were any lack the last two columns. What else documents have is in
``docs.columns.arrow`` (:mod:`.column_store`). Its batches are not compressed: 300,000 technical
passages (62 MB) took 28 MB (LZ4) or 20 MB (Zstandard) in batches of 64 documents, but reading a random text
took 25 or 50 microseconds a column instead of 0.8, and a re-ranker reads hundreds for each query.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from telerank.columns.filters import FIELDS
from telerank.corpus.column_store import ColumnReader, ColumnWriter
from telerank.corpus.docnos import FILES as DOCNO_FILES
from telerank.corpus.docnos import Docnos, DocnosWriter, FolderWriter, check_text
from telerank.errors import CollectionError, DocumentError, IndexDamaged
from telerank.stored import FolderReader
from telerank.types import Doc, Docs, Mark, Ranking

TEXTS = "docs.arrow"
FILES = (TEXTS, *DOCNO_FILES)
_COLUMNS = ("text", "title", "url", "file", "marks")
_SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in _COLUMNS])
_BEFORE_FILES = pa.schema([_SCHEMA.field(name) for name in _COLUMNS[:3]])
_BATCH = 4 << 20  # characters held before they are written
_LARGEST = 1 << 30  # characters of one document: a batch's offsets have 32 bits


class DocstoreWriter(FolderWriter):
    """Writes the documents of a folder.

    Memory holds 4 M characters and, at the end, the docnos to sort (see :mod:`.docnos`). ``columns`` are
    kinds of columns by name; those of others are inferred.
    """

    def __init__(self, folder: str | Path, columns: Mapping[str, str] | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._docnos = DocnosWriter(self.folder)
        self._columns = ColumnWriter(self.folder, columns or {})
        self._part = self.folder / f"{TEXTS}.part"
        self._file = ipc.new_file(str(self._part), _SCHEMA)
        self._names: list[str] = []
        self._held: tuple[list[str], ...] = tuple([] for _ in _COLUMNS)
        self._room = _BATCH

    def add(self, doc: Doc) -> int:
        """Add a document and return its row; texts are kept character for character, NULs included.

        Raises DocumentError for a bad docno, a text with a lone surrogate or over 2**30 characters, or a
        value that is not of the kind of its column.
        """
        row = self._docnos.add(doc.docno)
        marks = json.dumps(doc.marks, ensure_ascii=False) if doc.file else ""
        size = len(doc.text) + len(doc.title) + len(doc.url) + len(doc.file) + len(marks)
        if size > self._room:
            if size > _LARGEST:
                raise DocumentError(
                    f"document {doc.docno!r} (number {row + 1}): {size} characters are too many"
                )
            self._flush()
        self._columns.add(doc)
        self._names.append(doc.docno)
        texts, titles, urls, files, all_marks = self._held
        texts.append(doc.text)
        titles.append(doc.title)
        urls.append(doc.url)
        files.append(doc.file)
        all_marks.append(marks)
        self._room -= size + 1
        return row

    def close(self) -> None:
        """Write the remaining documents and rename the files to their final names; errors as :meth:`add`."""
        self._flush()
        self._file.close()
        self._docnos.close()
        self._columns.close()
        self._part.replace(self.folder / TEXTS)

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of the columns that were written, by name, once it is closed."""
        return self._columns.kinds

    def discard(self) -> None:
        self._docnos.discard()
        self._columns.discard()
        self._file.close()
        self._part.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._docnos)

    def _flush(self) -> None:
        if not self._names:
            return
        try:
            columns = [pa.array(values, pa.string()) for values in self._held]
        except UnicodeEncodeError:
            for name, values in zip(_COLUMNS, self._held, strict=True):
                for docno, value in zip(self._names, values, strict=True):
                    check_text(value, f"document {docno!r}: its {name}")
            raise
        self._file.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        for values in (self._names, *self._held):
            values.clear()
        self._room = _BATCH


class Docstore(FolderReader):
    """The documents of a folder; threads may share it, and it is pickled as its path.

    IndexDamaged if a file is missing or damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.docnos = Docnos(folder)
        self._batches = _batches(self.folder / TEXTS)
        self._firsts = [0]
        for size, _ in self._batches:
            self._firsts.append(self._firsts[-1] + size)
        if self._firsts[-1] != len(self.docnos):
            counts = f"{self._firsts[-1]} texts but {len(self.docnos)} docnos"
            raise IndexDamaged(f"{self.folder}: {counts}: {', '.join(FILES)} do not match")
        self.columns = ColumnReader(self.folder, len(self.docnos))

    def __getitem__(self, docno: str) -> Doc:
        return self.get_row(self.docnos.row(docno))

    def get_row(self, row: int) -> Doc:
        """The document of a row; IndexError if there is no such row."""
        docno = self.docnos[row]
        batch = bisect_right(self._firsts, row) - 1
        doc = _doc(docno, self._batches[batch][1], row - self._firsts[batch])
        return replace(doc, columns=self.columns.get_row(row)) if self.columns.kinds else doc

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kinds of the columns, by name."""
        return self.columns.kinds

    def column(self, name: str) -> pa.ChunkedArray | None:
        """The values of a column, or of ``docno``, ``title``, ``url`` or ``file``, for all rows.

        Empty texts are no values; None if no document has such a column.
        """
        if name in self.columns.kinds:
            return self.columns.column(name)
        if name == "docno":
            names = self.docnos.take(range(len(self)))
            return pa.chunked_array([pa.array(names, pa.string())])
        if name not in FIELDS:
            return None
        with pa.memory_map(str(self.folder / TEXTS)) as source:
            file = ipc.open_file(source)
            if name not in file.schema.names:
                return None
            batches = (file.get_batch(number) for number in range(file.num_record_batches))
            texts = pa.chunked_array([batch.column(name) for batch in batches], pa.string())
            return pc.if_else(pc.equal(texts, ""), None, texts)

    def __contains__(self, docno: str) -> bool:
        return docno in self.docnos

    def __iter__(self) -> Iterator[Doc]:
        docnos, number = iter(self.docnos), 0
        for size, columns in self._batches:
            for row in range(size):
                doc = _doc(next(docnos), columns, row)
                yield replace(doc, columns=self.columns.get_row(number)) if self.columns.kinds else doc
                number += 1

    def __len__(self) -> int:
        return len(self.docnos)


_Column = tuple[memoryview, memoryview]  # offsets of the texts (int32), their bytes


def _doc(docno: str, columns: tuple[_Column, ...], row: int) -> Doc:
    text, title, url = [str(texts[begins[row] : begins[row + 1]], "utf-8") for begins, texts in columns[:3]]
    file, marks = [bytes(texts[begins[row] : begins[row + 1]]) for begins, texts in columns[3:]] or (b"", b"")
    if not file:
        return Doc(docno, text, title, url)
    return Doc(docno, text, title, url, file.decode(), tuple(Mark(*values) for values in json.loads(marks)))


def _batches(path: Path) -> list[tuple[int, tuple[_Column, ...]]]:
    if not path.is_file():
        raise IndexDamaged(f"{path}: missing")
    try:
        file = ipc.open_file(pa.memory_map(str(path)))
        if file.schema not in (_SCHEMA, _BEFORE_FILES):
            raise IndexDamaged(f"{path}: columns {file.schema.names}, not {list(_COLUMNS)}")
        batches = [file.get_batch(number) for number in range(file.num_record_batches)]
    except (pa.ArrowInvalid, OSError) as error:
        raise IndexDamaged(f"{path}: {error}") from error
    columns: list[tuple[int, tuple[_Column, ...]]] = []
    for batch in batches:
        buffers = (array.buffers() for array in batch.columns)
        texts = tuple((memoryview(begins).cast("i"), memoryview(text or b"")) for _, begins, text in buffers)
        columns.append((batch.num_rows, texts))
    return columns


def read_doc(docs: Docs, docno: str) -> Doc:
    """The document of a docno; a full text has no title. Raises KeyError if there is no such document."""
    doc = docs[docno]
    return Doc(docno, doc) if isinstance(doc, str) else doc


def read_candidates(ranking: Ranking, docs: Docs) -> Iterator[Doc]:
    """The documents of a ranking, lazily; raises CollectionError if one is not among them."""
    for docno in ranking.docnos:
        try:
            yield read_doc(docs, docno)
        except KeyError as error:
            missing = sum(candidate not in docs for candidate in ranking.docnos)
            many = f" ({missing} of its {len(ranking)} candidates are not)" if missing > 1 else ""
            raise CollectionError(
                f"query {ranking.query.qid}: document {docno!r} is not among the documents{many}"
            ) from error


def identify_docs(docs: Docs) -> str:
    """The checksum of texts in memory, or the text of a docstore."""
    if not isinstance(docs, Mapping):
        return repr(docs)
    digest = hashlib.sha256()
    for docno in docs:
        digest.update(repr((docno, read_doc(docs, docno).full_text)).encode())
    return digest.hexdigest()
