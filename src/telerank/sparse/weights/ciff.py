"""CIFF, the Common Index File Format: reading its messages, and weights of terms from it (Lin et al., 2020).

A file is a sequence of protobuf messages, each behind its length as a varint: a ``Header``, its
``num_postings_lists`` of ``PostingsList``, its ``num_docs`` of ``DocRecord``.

===============  ====================================================================================
``Header``       1 version, 2 postings lists, 3 records of documents, 4 and 5 both in the collection,
                 6 terms in the collection, 7 average length (double), 8 description
``PostingsList``  1 term, 2 df, 3 cf, 4 postings
``Posting``      1 docid, but for the first less that of the posting before; 2 tf
``DocRecord``    1 docid, 2 docno, 3 length
===============  ====================================================================================

Jimmy Lin, Joel Mackenzie, Chris Kamphuis, Craig Macdonald, Antonio Mallia, Michał Siedlaczek, Andrew Trotman,
Arjen de Vries: Supporting Interoperability Between Open-Source Search Engines with the Common Index File
Format (SIGIR 2020).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.corpus.docstore import Docstore
from telerank.errors import FormatError, shorten
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.vectors import LARGEST, UnknownVectors, digest_files
from telerank.sparse.weights.writing import Take
from telerank.text import Analyzer
from telerank.trec import check_exists, open_bytes
from telerank.trec.files import unpack_limit
from telerank.types import Progress

ENDS = (".ciff", ".ciff.gz", ".ciff.xz")
VARINT, EIGHT_BYTES, BYTES = 0, 1, 2
POSTINGS = 4 << 3 | BYTES
_CHUNK = 1 << 20  # bytes of a message that are read at a time
_LONGEST_FIELD = 1 << 16  # bytes of a term, a docno, a description
_LARGEST_LIST = 1 << 36  # bytes of a postings list
_SMALLEST_RECORD = 3  # bytes, with its length
_LARGEST_POSTING, _MOST_SHIFT = 12, 28  # bytes of two fields, bits of a number before its last byte
_REPORTED = 1000  # lists between two calls of progress
_WHOLE, _OTHER_FIELD, _WRONG = range(3)


class CiffHeader(NamedTuple):
    """How many postings lists and records of documents follow."""

    lists: int
    docs: int


class CiffPart(NamedTuple):
    """Postings of the list of that ``number``: ascending docids (P,), tfs (P,)."""

    number: int
    term: str
    docids: npt.NDArray[np.int64]
    tfs: npt.NDArray[np.int64]


class CiffReader(AbstractContextManager["CiffReader"]):
    """The messages of a file: ``header``, then :meth:`lists`, then :meth:`records`, each read once.

    Memory does not depend on the file. Raises FormatError if it is no CIFF.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        check_exists(path)
        with ExitStack() as stack:
            self._file = stack.enter_context(open_bytes(path))
            self.header = self._read_header()
            self._stack = stack.pop_all()

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]  # a damaged archive is told as such

    def lists(self) -> Iterator[CiffPart]:
        """The postings, list by list; a long list comes in several parts, one without postings in one."""
        for number in range(self.header.lists):
            yield from self._read_list(number)

    def records(self) -> Iterator[tuple[int, str]]:
        """The docid and the docno of each document."""
        for number in range(self.header.docs):
            what = f"record {number + 1:,} of a document"
            fields = self._parse(self._read(self._read_length(what, _LONGEST_FIELD + 64), what), what)
            docid, docno = fields.get(1, 0), fields.get(2, b"")
            if not isinstance(docid, int) or docid >= self.header.docs:
                raise self._refuse(f"{what}: a docid below {self.header.docs:,}", docid)
            if not isinstance(docno, bytes) or not docno:
                raise self._refuse(f"{what}: a docno", docno)
            yield docid, self._decode(docno, what)
        if self._file.read(1):
            raise self._refuse("nothing behind the last record of a document")

    def _read_header(self) -> CiffHeader:
        what = "the header of a CIFF"
        fields = self._parse(self._read(self._read_length(what, _LONGEST_FIELD), what), what)
        version, lists, docs = (fields.get(number, 0) for number in (1, 2, 3))
        if version != 1:
            raise self._refuse(f"{what}: version 1", version)
        for count in (lists, docs):
            if not isinstance(count, int) or count >= 2**31:
                raise self._refuse(f"{what}: whole numbers of lists and documents", count)
        size = Path(self._path).stat().st_size
        most = size if Path(self._path).suffix == ".ciff" else unpack_limit(size)
        if docs * _SMALLEST_RECORD > most:
            raise self._refuse(f"{what}: no more documents than the file has room for", docs)
        return CiffHeader(lists, docs)

    def _read_list(self, number: int) -> Iterator[CiffPart]:
        what = f"postings list {number + 1:,}"
        message = _Message(self, what, self._read_length(what, _LARGEST_LIST))
        term, df, count, last = "", 0, 0, -1
        while message.fill():
            if message.data[message.at] == POSTINGS:
                gaps, tfs = message.read_postings()
                if not count and len(gaps):  # the first is no difference
                    gaps[0] += 1
                docids = last + np.cumsum(gaps)
                self._check_postings(what, term, (gaps, docids, tfs))
                count, last = count + len(docids), int(docids[-1]) if len(docids) else last
                yield CiffPart(number, term, docids, tfs)
                continue
            field, value = message.read_field()
            if field == 1 and isinstance(value, bytes) and value and not term:
                term = self._decode(value, what)
            elif field == 2 and isinstance(value, int):
                df = value
            elif field != 3 or not isinstance(value, int):
                raise self._refuse(f"{what}: a term, df, cf and postings", f"field {field}")
        if count != df:
            raise self._refuse(f"{what}, {shorten(term, 40)}: {df:,} postings, as its df says", count)
        if not count:
            yield CiffPart(number, term, np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _check_postings(self, what: str, term: str, postings: tuple[npt.NDArray[np.int64], ...]) -> None:
        gaps, docids, tfs = postings
        if not term:
            raise self._refuse(f"{what}: a term before its postings")
        where = f"{what}, {shorten(term, 40)}"
        if len(gaps) and gaps.min() < 1:
            raise self._refuse(f"{where}: ascending docids", "one twice")
        if len(docids) and docids[-1] >= self.header.docs:
            raise self._refuse(f"{where}: docids below {self.header.docs:,}", int(docids[-1]))
        if len(tfs) and tfs.max() >= LARGEST:
            raise self._refuse(f"{where}: a tf below {LARGEST:,.0f}", int(tfs.max()))

    def _read(self, size: int, what: str) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise self._refuse(f"{what}: {size:,} bytes", f"the file's end after {len(content):,}")
        return content

    def _read_length(self, what: str, most: int) -> int:
        """The length of the next message."""
        length = shift = 0
        while True:
            byte = self._read(1, what)[0]
            length |= (byte & 127) << shift
            shift += 7
            if length > most or shift > 63:
                raise self._refuse(f"{what}: a message of at most {most:,} bytes", length)
            if byte < 128:
                return length

    def _parse(self, content: bytes, what: str) -> dict[int, Any]:
        """The fields of a small message by number: whole numbers, or bytes."""
        fields, at = {}, 0
        while at < len(content):
            number, value, at = self._parse_field(content, at, what)
            fields[number] = value
        return fields

    def _parse_field(self, content: bytes, at: int, what: str) -> tuple[int, int | bytes, int]:
        """The number and the value of a field, and where it ends."""
        try:
            return _parse_field(content, at)
        except ValueError as error:
            raise self._refuse(f"{what}: fields of protobuf", str(error)) from error

    def _decode(self, value: bytes, what: str) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise self._refuse(f"{what}: UTF-8", repr(value)[:60]) from error

    def _refuse(self, expected: str, got: object = None) -> FormatError:
        return FormatError(self._path, None, expected, None if got is None else str(got))


class _Message:
    """The bytes of a postings list: ``data`` from ``at`` on, which :meth:`fill` reads on."""

    def __init__(self, reader: CiffReader, what: str, length: int) -> None:
        self._reader, self._what, self._left = reader, what, length
        self.data, self.at = b"", 0

    def fill(self) -> bool:
        """Read on if less than the longest field is here; False at the message's end."""
        if self._left and len(self.data) - self.at < _LONGEST_FIELD + 64:
            size = min(self._left, _CHUNK)
            self.data = self.data[self.at :] + self._reader._read(size, self._what)  # noqa: SLF001
            self._left, self.at = self._left - size, 0
        return self.at < len(self.data)

    def read_field(self) -> tuple[int, int | bytes]:
        number, value, self.at = self._reader._parse_field(self.data, self.at, self._what)  # noqa: SLF001
        return number, value

    def read_postings(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The gaps and tfs of the postings that are here as a whole, at least one."""
        content = np.frombuffer(self.data, np.uint8)
        most = (len(content) - self.at) // 2
        gaps, tfs = np.empty(most, np.int64), np.empty(most, np.int64)
        count, self.at, status = _parse_postings(content, self.at, gaps, tfs)
        if status == _WRONG or (status == _WHOLE and not count):
            wrong = "something else" if status == _WRONG else "the end of the list within one"
            raise self._reader._refuse(f"{self._what}: postings of a docid and a tf", wrong)  # noqa: SLF001
        return gaps[:count], tfs[:count]


def _parse_varint(content: bytes, at: int) -> tuple[int, int]:
    """A varint of up to 64 bits, and where it ends; raises ValueError."""
    value = shift = 0
    while True:
        if at >= len(content) or shift > 63:
            raise ValueError("a varint without end")
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _parse_field(content: bytes, at: int) -> tuple[int, int | bytes, int]:
    """The number and the value of a field, and where it ends; raises ValueError."""
    key, at = _parse_varint(content, at)
    number, kind = key >> 3, key & 7
    if kind == VARINT:
        value, at = _parse_varint(content, at)
        return number, value, at
    size = 8
    if kind == BYTES:
        size, at = _parse_varint(content, at)
    elif kind != EIGHT_BYTES:
        raise ValueError(f"a field of the wire type {kind}")
    if size > _LONGEST_FIELD or at + size > len(content):
        raise ValueError(f"a field of {size:,} bytes")
    return number, content[at : at + size], at + size


@compiled
def _parse_postings(content: Any, at: int, gaps: Any, tfs: Any) -> Any:
    """Postings as long as there are any: how many, where they end, and why no more (``_WHOLE``: the data)."""
    count = 0
    while at + 1 < len(content) and content[at] == POSTINGS:
        size = content[at + 1]
        if size > _LARGEST_POSTING:
            return count, at, _WRONG
        end = at + 2 + size
        if end > len(content):
            break
        gap, tf = _parse_posting(content, at + 2, end)
        if tf < 0:
            return count, at, _WRONG
        gaps[count], tfs[count] = gap, tf
        count, at = count + 1, end
    is_other = at < len(content) and content[at] != POSTINGS
    return count, at, _OTHER_FIELD if is_other else _WHOLE


@compiled
def _parse_posting(content: Any, at: int, end: int) -> Any:
    """The docid and the tf of a posting; the tf is -1 if it is none."""
    gap = tf = 0
    while at < end:
        key = content[at]
        value = shift = 0
        more = True
        while more:
            at += 1
            if at >= end or shift > _MOST_SHIFT:
                return gap, -1
            value |= (int(content[at]) & 127) << shift
            more = content[at] > 127
            shift += 7
        at += 1
        if value >= 1 << 31 or key not in (8, 16):
            return gap, -1
        gap, tf = (value, tf) if key == 8 else (gap, value)
    return gap, tf


@dataclass(frozen=True)
class CiffWeights:
    """The tfs of a CIFF as whole weights of documents, by their docnos.

    It is read twice: to count what each document has, and to put the postings in the order of documents, on
    the disk. Memory is the vocabulary, and 40 bytes for each document.
    """

    path: str

    @cached_property
    def entry(self) -> WeightsEntry:
        """What the manifest of an index says of them."""
        return WeightsEntry(files=digest_files([Path(self.path)]))

    def weigh(self, docs: Docstore, analyzer: Analyzer, take: Take, progress: Progress) -> None:  # noqa: ARG002
        """Give ``take`` the vectors; a warning (MissingWeights) counts those of no document.

        Raises FormatError if the file is no CIFF, has a term twice, or two records of a document.
        """
        scratch = docs.folder / "ciff"
        scratch.mkdir()
        rows, terms, starts = self._count(docs, progress)
        self._transpose(scratch, len(terms), starts, progress)
        kept = np.flatnonzero(rows >= 0)
        if starts[-1]:
            stored = [np.memmap(scratch / name, np.int32, "r") for name in ("terms", "tfs")]
        for docid in kept.tolist():
            first, last = int(starts[docid]), int(starts[docid + 1])
            vector: dict[str, float] = {}
            if first < last:
                held, tfs = (array[first:last].tolist() for array in stored)
                vector = {terms[number]: float(tf) for number, tf in zip(held, tfs, strict=True) if tf}
            if not take(int(rows[docid]), vector):
                docno = docs.docnos[int(rows[docid])]
                raise FormatError(self.path, None, "one record a document", docno)
        shutil.rmtree(scratch)

    def _count(
        self, docs: Docstore, progress: Progress
    ) -> tuple[npt.NDArray[np.int32], list[str], npt.NDArray[np.int64]]:
        """The row of each docid or -1, the terms, and where the postings of each document begin."""
        terms: dict[str, None] = {}
        with CiffReader(self.path) as reader:
            size, previous = reader.header.docs, -1
            counts, rows = np.zeros(size, np.int64), np.full(size, -1, np.int32)
            for part in reader.lists():
                if part.number != previous and part.term in terms:
                    raise FormatError(self.path, None, "one postings list for a term", part.term)
                terms[part.term] = None
                previous = part.number
                counts[part.docids] += 1
                if part.number % _REPORTED == 0:
                    progress("counting weights", part.number, reader.header.lists)
            unknown, seen = UnknownVectors(self.path), np.zeros(size, np.bool_)
            for docid, docno in reader.records():
                if seen[docid]:
                    raise FormatError(self.path, None, "one record for a docid", str(docid))
                seen[docid] = True
                try:
                    rows[docid] = docs.docnos.row(docno)
                except KeyError:
                    unknown.add(docno)
        unknown.warn()
        return rows, list(terms), np.concatenate([[0], np.cumsum(counts)])

    def _transpose(
        self, scratch: Path, terms: int, starts: npt.NDArray[np.int64], progress: Progress
    ) -> None:
        """Write the numbers of terms and the tfs of each document one after the other."""
        if not starts[-1]:
            return
        numbers, tfs = (
            np.memmap(scratch / name, np.int32, "w+", shape=(int(starts[-1]),)) for name in ("terms", "tfs")
        )
        ends, number, previous = starts[:-1].copy(), -1, -1
        with CiffReader(self.path) as reader:
            if reader.header.docs != len(ends):
                raise self._changed()
            for part in reader.lists():
                number, previous = number + (part.number != previous), part.number
                at = ends[part.docids]
                if number >= terms or (at >= starts[part.docids + 1]).any():
                    raise self._changed()
                numbers[at], tfs[at] = number, part.tfs
                ends[part.docids] += 1
                if part.number % _REPORTED == 0:
                    progress("reading weights", part.number, reader.header.lists)

    def _changed(self) -> FormatError:
        return FormatError(self.path, None, "a file that does not change while it is read")
