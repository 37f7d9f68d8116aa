"""TREC-CAR: paragraphs of Wikipedia in CBOR, and outlines, whose headings are the queries.

A file is a stream of CBOR items: in release 1.5 one after the other, in release 2.0 (and 1.6) a header
``["CAR", [kind of file, …], …]`` and then one array of unknown length. These parts of an item, as defined by
``trec-car-tools``, are read:

==============  ==================================================================================
paragraph       ``[0, id, [body, …]]``
body            ``[0, text]`` or ``[1, [_, page, [section], target id, anchor text]]``
page            ``[0, name, id, [part, …], …]``
part of a page  ``[0, heading, heading id, [part, …]]``; others (paragraphs, images, lists) are no headings
==============  ==================================================================================

A paragraph's text is that of its bodies, where a link has its anchor text. A query is a page or a section
with its path: the qid is ``page id/heading id/…``, and the text the names along it separated by blanks, as
in the program of Nogueira and Cho (their paper has the titles of article and section, and does not say what
becomes of the headings between). In release 1.5 ids do not begin with ``enwiki:``.

A collection is a file of paragraphs or outlines, or a folder. Its files are recognised by their content
(``.cbor`` in the name) or their name (qrels, topics):

- files of paragraphs are the documents, one file after the other;
- a file of outlines is a split, named by the part of its name before ``.cbor``
  (``test.pages.cbor-outlines.cbor`` is ``test.pages``); without outlines, pages are used;
- so is a file of TREC's topics (``topics.car17v2.0.benchmarkY1test.txt``);
- a file of qrels belongs to the split of the same name. Hierarchical judgments have just this name; those on
  pages and on top-level sections are the splits ``test.pages-article`` and ``test.pages-toplevel``, whose
  queries are pages and top-level sections.

Source: trec-car.cs.unh.edu (Dietz et al. 2017). Licence as stated there: CC BY-SA 3.0, as Wikipedia's.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import cbor2

from telerank.corpus.collection import Collection
from telerank.corpus.reading import bind_files, has_files, list_files, plain_name, read_all
from telerank.errors import CollectionError, FormatError
from telerank.trec import Format, check_id, open_bytes, read_qrels, read_topics
from telerank.types import Doc, Query

PAGES, OUTLINES, PARAGRAPHS = 0, 1, 2
KINDS = {PAGES: "pages", OUTLINES: "outlines", PARAGRAPHS: "paragraphs"}
_LIST, _BREAK = b"\x9f", b"\xff"
_QRELS = re.compile(r"^qrels\.|\.qrels$")
_TOPICS = re.compile(r"^topics\.")
_LEVEL = re.compile(r"[.-](hierarchical|toplevel|article)(?=\.|$)")
_STEPS = {"article": 0, "toplevel": 1}  # slashes in a qid


def read_paragraphs(path: str | Path) -> Iterator[Doc]:
    """Read the paragraphs of a CBOR file, plain or compressed, one at a time."""
    for number, item in _items(path, (PARAGRAPHS,)):
        try:
            docno, bodies = _untag(item, max(3, len(item)))  # no more than these
            name, text = docno.decode("ascii"), "".join(map(_body_text, bodies))
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise FormatError(path, None, f"a paragraph as item {number}", _describe(item)) from error
        yield Doc(check_id(name, "paragraph id", path), text)


def read_outlines(path: str | Path) -> Iterator[Query]:
    """Read the queries of a file of outlines or pages: every page, then its sections, depth first.

    A path that a page has twice (two sections of the same name) is one query.
    """
    for number, item in _items(path, (OUTLINES, PAGES)):
        try:
            name, page, parts = _untag(item, 4)
            queries = dict(_paths([(page.decode("utf-8"), name)], parts))
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise FormatError(path, None, f"a page as item {number}", _describe(item)) from error
        yield from (Query(check_id(qid, "heading id", path), text) for qid, text in queries.items())


def _untag(item: object, length: int) -> list[Any]:
    """The first values of an item that follow its tag, which is 0."""
    if not isinstance(item, list) or len(item) < length or item[0] != 0:
        raise ValueError(_describe(item))
    return item[1:length]


def _describe(item: object) -> str:
    """An item for an error message, however large it is."""
    return f"a list of {len(item)}" if isinstance(item, list) else type(item).__name__


def _body_text(body: list[object]) -> str:
    """The text of one body; ``ValueError`` if it is neither text nor link."""
    match body:
        case [0, str(text), *_] | [1, [_, _, _, _, str(text), *_], *_]:
            return text
        case _:
            raise ValueError(f"a body is a text or a link, got {body!r}")


def _paths(path: list[tuple[str, str]], parts: list[list[Any]]) -> Iterator[tuple[str, str]]:
    """Qid and text of the section at ``path``, ids and names from the page on, and of all below it."""
    yield "/".join(step for step, _ in path), " ".join(name for _, name in path)
    for part in parts:
        if part[0] == 0:
            yield from _paths([*path, (part[2].decode("utf-8"), part[1])], part[3])


def _items(path: str | Path, kinds: tuple[int, ...]) -> Iterator[tuple[int, Any]]:
    """The items of a file of one of these kinds, without the header, numbered from 1."""
    with open_bytes(path) as file:
        window, number = _Window(file), 1
        try:
            item = window.item()
            headed = isinstance(item, list) and len(item) > 1 and item[0] == "CAR"
            if headed:
                if (kind := _kind_of(item)) not in kinds:
                    raise FormatError(
                        path,
                        None,
                        f"a TREC-CAR file of {' or '.join(KINDS[number] for number in kinds)}",
                        KINDS.get(kind, _describe(item)),
                    )
                if window.take() != _LIST:
                    raise FormatError(path, None, "a list of items after the header")
            else:
                yield 1, item
                number = 2
            while window.peek() != (_BREAK if headed else b""):
                yield number, window.item()
                number += 1
        except cbor2.CBORDecodeError as error:
            raise FormatError(path, None, f"a whole CBOR item as item {number}", str(error)) from error


def _kind_of(item: object) -> int:
    """The kind of a file by its header or its first item; -1 if it is not TREC-CAR's."""
    match item:
        case ["CAR", [int(kind), *_], *_]:
            return kind
        case [0, bytes(), _, *_]:
            return PARAGRAPHS
        case [0, _, bytes(), *_]:
            return OUTLINES
        case _:
            return -1


class _Window:
    """Decodes items from a part of the file in memory, which is extended until it contains a whole item.

    The decoder reads ahead and seeks back, which a compressed file cannot do.
    """

    def __init__(self, file: BinaryIO, size: int = 1 << 20) -> None:
        self._file, self._size = file, size
        self._bytes = io.BytesIO()

    def item(self) -> Any:
        """The next item; ``CBORDecodeEOF`` if the file ends within it."""
        while True:
            start = self._bytes.tell()
            try:
                return cbor2.load(self._bytes)
            except cbor2.CBORDecodeEOF:
                if not self._read_on(start):
                    raise

    def peek(self) -> bytes:
        """The next byte, which is not consumed; empty at the end of the file."""
        start = self._bytes.tell()
        byte = self._bytes.read(1)
        if byte:
            self._bytes.seek(start)
            return byte
        return self.peek() if self._read_on(start) else b""

    def take(self) -> bytes:
        byte = self.peek()
        self._bytes.seek(len(byte), io.SEEK_CUR)
        return byte

    def _read_on(self, start: int) -> bool:
        self._bytes.seek(start)
        rest = self._bytes.read()
        more = self._file.read(max(self._size, len(rest)))  # at least double: no item is decoded often
        self._bytes = io.BytesIO(rest + more)
        return bool(more)


def _open(path: Path, encoding: str) -> Collection:
    del encoding  # CBOR's text is UTF-8
    kinds = _find_kinds(path)
    if not kinds:
        raise CollectionError(f"{path}: expected TREC-CAR files of paragraphs or outlines (.cbor)")
    others = [file for file in list_files(path) if file not in kinds]
    topics = [file for file in others if _TOPICS.search(plain_name(file))]
    # outlines replace pages of the same name
    outlines = sorted((file for file, kind in kinds.items() if kind != PARAGRAPHS), key=kinds.__getitem__)
    readers = {
        **{_stem(file): partial(read_outlines, file) for file in outlines},
        **{_stem(file): partial(read_topics, file, format="car") for file in topics},
    }
    judged: dict[str, Path] = {}
    levels = {stem: (stem, "") for stem in readers}
    for file in others:
        if _QRELS.search(plain_name(file)):
            match, stem = _LEVEL.search(plain_name(file)), _stem(file)
            level = match[1] if match and match[1] in _STEPS else ""
            split = f"{stem}-{level}" if level else stem
            judged[split], levels[split] = file, (stem, level)

    def queries(read: Callable[[], Iterator[Query]], level: str) -> Iterator[Query]:
        return (query for query in read() if not level or query.qid.count("/") == _STEPS[level])

    return Collection(
        name=path.name if path.is_dir() else _stem(path),
        format=TREC_CAR.name,
        docs=partial(read_all, read_paragraphs, [file for file, kind in kinds.items() if kind == PARAGRAPHS]),
        queries={
            split: partial(queries, readers[stem], level)
            for split, (stem, level) in sorted(levels.items())
            if stem in readers
        },
        qrels=bind_files(read_qrels, judged),
        licence="CC BY-SA 3.0",
        source="trec-car.cs.unh.edu",
    )


def _find_kinds(path: Path) -> dict[Path, int]:
    """The CBOR files of TREC-CAR with their kinds."""
    kinds: dict[Path, int] = {}
    for file in list_files(path):
        if ".cbor" in file.name and file.is_file() and not _QRELS.search(plain_name(file)):
            with suppress(FormatError, OSError, cbor2.CBORDecodeError), open_bytes(file) as opened:
                kinds[file] = _kind_of(_Window(opened, 1 << 16).item())
    return {file: kind for file, kind in kinds.items() if kind in KINDS}


def _stem(file: Path) -> str:
    name = plain_name(file)
    for affix in ("topics.", "qrels."):
        name = name.removeprefix(affix)
    return _LEVEL.sub("", name.partition(".cbor")[0].removesuffix(".txt").removesuffix(".qrels"))


_MISSING = "no .cbor file of paragraphs, outlines or pages"
TREC_CAR = Format(
    "trec-car",
    has_files(_find_kinds, _MISSING, _MISSING, ".cbor"),
    _open,
    "TREC-CAR: CBOR files of paragraphs and outlines",
)
