"""Files of queries that a model predicted for documents, by which the documents are expanded.

====================  ==============================================================================
``.jsonl``            lines ``{"id": "d1", "predicted_queries": ["…", "…"]}``, as Pyserini's; also
                      ``querygen``, a text with a query a line, as PyTerrier's
``.txt``, ``.tsv``    for each document, in their order, a line of queries with tabs between them
``.zip``, a folder    files ``…sampleNNN.txtCCC-TOTAL`` with a line for each document, as docTTTTTquery's
                      are published: a query of each sample ``NNN``; its parts ``CCC`` follow each other
====================  ==============================================================================

All may be compressed (``.gz``, ``.xz``).
"""

from __future__ import annotations

import io
import lzma
import re
import shutil
import warnings
import zipfile
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, cast

import numpy as np

from telerank.corpus.readers.plain import DOCNO_KEYS
from telerank.corpus.reading import plain_name
from telerank.errors import CollectionError, FormatError, MissingQueries, agree, count_noun, shorten
from telerank.trec import (
    BOM,
    LONGEST,
    check_exists,
    decode,
    describe_json,
    first_value,
    numbered_lines,
    open_bytes,
    parse_object,
    raw_lines,
)
from telerank.trec.files import unpack_limit
from telerank.types import TEXT_FIELDS, Doc

EXPANSION = "expansion"
"""The column of documents that has their predicted queries."""
QUERIES = "predicted_queries"
_PYTERRIER = "querygen"
# what zipfile raises of a file that is damaged, or packed in a way that it does not know, or encrypted
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError)
_SAMPLE = re.compile(r"(?:.*/)?[^/]*?sample(\d+)\.txt(\d+)-\d+")


class PredictedQueries(AbstractContextManager["PredictedQueries"]):
    """The queries of a file of JSON lines by docno, in any order.

    Memory is 16 bytes for each line. What is compressed is unpacked into a file without a name.

    Raises
    ------
    CollectionError
        If there is no such file.
    FormatError
        If a line is wrong, or a document has two; the message names it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._stack = Path(path), ExitStack()
        check_exists(path)
        keys, self._offsets = array("Q"), array("Q")
        with ExitStack() as stack:
            self._file = stack.enter_context(_open_plain(self.path))
            at = 0
            for number, line in enumerate(iter(partial(self._file.readline, LONGEST), b""), 1):
                if not line.isspace():
                    keys.append(_key(self._read_line(number, line)[0]))
                    self._offsets.append(at)
                at += len(line)
            self._stack = stack.pop_all()
        numbers = np.array(keys, np.uint64)
        self._order = np.argsort(numbers, kind="stable")
        self._keys = numbers[self._order]

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, docno: str) -> tuple[str, ...] | None:
        """The queries of a document; None if it has no line."""
        own, key = None, np.uint64(_key(docno))
        first, last = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        for number in self._order[first:last].tolist():
            self._file.seek(self._offsets[number])
            name, queries = self._read_line(number + 1, self._file.readline(LONGEST))
            if name == docno:
                if own is not None:
                    raise FormatError(self.path, number + 1, "one line a document", docno)
                own = queries
        return own

    def _read_line(self, number: int, line: bytes) -> tuple[str, tuple[str, ...]]:
        content = line.removeprefix(BOM).removesuffix(b"\n").removesuffix(b"\r")
        text = decode(content, self.path, "utf-8", number)
        return read_line(self.path, number, text)


@contextmanager
def expanding(path: str | Path | None) -> Iterator[Callable[[Iterator[Doc]], Iterator[Doc]]]:
    """What gives documents their queries in the column :data:`EXPANSION`, lazily; None: as they are.

    At the end warnings (MissingQueries) count the documents without a line, and the lines of no document.

    Raises
    ------
    CollectionError
        If there is no such file or, later, if a document has a column of that name.
    FormatError
        If a line is wrong.
    """
    if path is None:
        yield lambda docs: docs
        return
    counts = {"read": 0, "found": 0}
    with PredictedQueries(path) as predicted:
        yield partial(_expand_docs, predicted=predicted, counts=counts)
        lacking, unused = counts["read"] - counts["found"], len(predicted) - counts["found"]
    for count, noun, why in ((lacking, "document", "no line there"), (unused, "line", "no document")):
        if count:
            verb = agree(count, "has", "have") if noun == "document" else agree(count, "is of", "are of")
            warnings.warn(f"{path}: {count_noun(count, noun)} {verb} {why}", MissingQueries, stacklevel=4)


def counting_unexpanded(docs: Iterator[Doc], index: Path) -> Iterator[Doc]:
    """The documents; at the end a warning (MissingQueries) counts those without predicted queries."""
    lacking = 0
    for doc in docs:
        lacking += EXPANSION not in doc.columns
        yield doc
    if lacking:
        verb = agree(lacking, "has", "have")
        note = f"{index}: {count_noun(lacking, 'new document')} {verb} no predicted queries, as others have"
        warnings.warn(f"{note} (index add --update --expansion FILE adds them)", MissingQueries, stacklevel=2)


def expand_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of an index whose documents are expanded: without any, title and text."""
    named = tuple(fields) or TEXT_FIELDS
    return named if EXPANSION in named else (*named, EXPANSION)


def appending(docs: Iterable[Doc], path: str | Path) -> Iterator[Doc]:
    """The documents with the queries of a file behind their texts; warns and raises as :func:`expanding`."""
    with expanding(path) as expand_docs:
        for doc in expand_docs(iter(docs)):
            columns = dict(doc.columns)
            queries = columns.pop(EXPANSION, ())
            yield replace(doc, text=" ".join(filter(None, (doc.text, *queries))), columns=columns)


def _expand_docs(docs: Iterator[Doc], predicted: PredictedQueries, counts: dict[str, int]) -> Iterator[Doc]:
    for doc in docs:
        if EXPANSION in doc.columns:
            raise CollectionError(f"document {shorten(doc.docno)} has a column {EXPANSION!r} already")
        queries = predicted.find(doc.docno)
        counts["read"] += 1
        counts["found"] += queries is not None
        yield replace(doc, columns={**doc.columns, EXPANSION: queries}) if queries else doc


def read_line(path: Path, number: int, line: str) -> tuple[str, tuple[str, ...]]:
    """The docno and the queries of a line of JSON."""
    record = parse_object(path, number, line)
    docno, queries = first_value(record, DOCNO_KEYS), first_value(record, (QUERIES, _PYTERRIER))
    if isinstance(docno, bool) or not isinstance(docno, str | int) or docno == "":
        raise FormatError(path, number, 'an "id", a docno', describe_json(docno))
    listed = queries.split("\n") if isinstance(queries, str) else queries
    if not isinstance(listed, list) or not all(isinstance(query, str) for query in listed):
        raise FormatError(path, number, f'"{QUERIES}", a list of texts', describe_json(queries))
    return str(docno), tuple(query for query in map(str.strip, listed) if query)


def read_published(path: str | Path) -> Callable[[Iterator[str]], Iterator[tuple[str, ...]]]:
    """What gives the queries of documents by their docnos, which come in the order of the collection.

    Raises
    ------
    CollectionError
        If there is no such file, or it is in none of the forms.
    FormatError
        Later, if a document lacks a line, or there are more lines than documents.
    """
    check_exists(path)
    if plain_name(Path(path)).endswith(".jsonl"):
        return partial(_look_up, path)
    return partial(_join_lines, path)


def _look_up(path: str | Path, docnos: Iterator[str]) -> Iterator[tuple[str, ...]]:
    with PredictedQueries(path) as predicted:
        for docno in docnos:
            queries = predicted.find(docno)
            if queries is None:
                raise FormatError(path, None, "a line for each document", f"none for {docno}")
            yield queries


def _join_lines(path: str | Path, docnos: Iterator[str]) -> Iterator[tuple[str, ...]]:
    with ExitStack() as stack:
        lines = _open_samples(path, stack)
        for number, (docno, queries) in enumerate(zip_longest(docnos, lines), 1):
            if docno is None or queries is None:
                what = f"document {shorten(docno)}" if queries is None else "a line more"
                raise FormatError(path, number, "a line for each document", what)
            yield queries


def _open_samples(path: str | Path, stack: ExitStack) -> Iterator[tuple[str, ...]]:
    """The queries of each line of a file, or of all samples of a folder or an archive."""
    file = Path(path)
    if not file.is_dir() and file.suffix != ".zip":
        return (_split(line) for _, line in numbered_lines(file, blank=True))
    opens: dict[str, Callable[[], AbstractContextManager[BinaryIO]]]
    if file.is_dir():
        opens = {each.name: partial(open_bytes, each) for each in file.iterdir()}
    else:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
        except zipfile.BadZipFile as error:
            raise FormatError(file, None, "an archive (.zip)", str(error)) from error
        opens = {name: partial(_open_member, archive, name) for name in archive.namelist()}
    samples: dict[int, dict[int, str]] = defaultdict(dict)
    for name in opens:
        if match := _SAMPLE.fullmatch(name):
            samples[int(match[1])][int(match[2])] = name
    if not samples:
        raise CollectionError(f"{path}: expected files such as queries_sample000.txt000-1004000, got none")
    streams = [
        chain.from_iterable(_read_part(file, part, opens[part]) for _, part in sorted(parts.items()))
        for _, parts in sorted(samples.items())
    ]
    return map(partial(_join_samples, file), zip_longest(*streams))


@contextmanager
def _open_member(archive: zipfile.ZipFile, name: str) -> Iterator[BinaryIO]:
    """A file of an archive. Raises FormatError if it is damaged, encrypted or unpacks to very much."""
    where, part = f"{archive.filename}: {name}", archive.getinfo(name)
    most = unpack_limit(part.compress_size)
    if part.file_size > most:  # no more is unpacked than it says
        raise FormatError(
            where, None, f"a file that unpacks to at most {most:,} bytes", f"{part.file_size:,}"
        )
    try:
        with archive.open(part) as file:
            yield cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", file)))
    except _BROKEN as error:
        raise FormatError(where, None, "a whole file of an archive", str(error)) from error


def _read_part(
    path: Path, name: str, opened: Callable[[], AbstractContextManager[BinaryIO]]
) -> Iterator[tuple[str, ...]]:
    where = f"{path}: {name}"
    with opened() as file:
        for number, line in raw_lines(where, file):
            yield _split(decode(line.removesuffix(b"\n").removesuffix(b"\r"), where, "utf-8", number))


def _join_samples(path: Path, queries: Sequence[tuple[str, ...] | None]) -> tuple[str, ...]:
    if None in queries:
        raise FormatError(path, None, "samples of as many lines", "one that ends before others")
    return tuple(chain.from_iterable(each for each in queries if each is not None))


def _split(line: str) -> tuple[str, ...]:
    return tuple(query for query in map(str.strip, line.split("\t")) if query)


def _open_plain(path: Path) -> BinaryIO:
    """The file, or a file without a name that has what it holds compressed."""
    if path.suffix not in (".gz", ".xz"):
        return path.open("rb")
    plain = cast("BinaryIO", TemporaryFile())  # noqa: SIM115 — its reader closes it
    with open_bytes(path) as packed:
        shutil.copyfileobj(packed, plain, 1 << 20)
    plain.seek(0)
    return plain


def _key(docno: str) -> int:
    """A number of 64 bits by which a docno is looked up; two docnos may have the same."""
    digest = blake2b(docno.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")
