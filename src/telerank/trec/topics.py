"""Topics files: TREC's SGML, tab-separated lines, JSON lines, and outline paths of TREC-CAR."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from telerank.errors import FormatError
from telerank.trec.files import check_id, first_value, numbered_lines, parse_object
from telerank.types import Query

_Lines: TypeAlias = Iterator[tuple[int, str]]
_Numbered: TypeAlias = Iterator[tuple[int, Query]]

_ID_KEYS = ("_id", "qid", "id", "query_id")
_TEXT_KEYS = ("text", "query", "title", "question")
_TAG = re.compile(r"<([/?!]?)([A-Za-z][\w-]*)([^<>]*)>")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);")
_NUMBER = re.compile(r"""\bnumber\s*=\s*["']?\s*([^"'\s>]+)""")
_LABEL = re.compile(r"^(?:Number|Topic|Description|Narrative)\s*:\s*")
_SAME = {"query": "title", "description": "desc", "question": "desc", "narrative": "narr"}
_OTHER = ("num", "title", "desc", "narr", "head", "dom", "smry", "con", "fac", "nat", "time", "def")
_FIELDS = _SAME | {name: name for name in _OTHER}  # other tags are mark-up within a field


def read_topics(
    path: str | Path,
    field: str | None = None,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Iterator[Query]:
    """Read the queries of a topics file, in its order.

    ``format`` is recognised from the first line unless it is given:

    ``trec``
        ``<top>`` with ``<num>``, ``<title>``, ``<desc>``, ``<narr>``, with or without end tags; or the newer
        ``<topic number="…">`` with ``<query>``, ``<description>`` or ``<question>``, ``<narrative>``.
        ``field`` defaults to ``title``; ``title+desc`` joins two. White space is collapsed.
    ``tsv``
        Lines of a qid, a tab and the text, which is kept as it is.
    ``jsonl``
        One object a line, with the qid as ``_id``, ``qid``, ``id`` or ``query_id``, and the text as
        the first present of ``text``, ``query``, ``title`` or ``question``, or as ``field`` names it.
    ``car``
        One outline path a line, which is the qid; its headings are the text.

    Raises
    ------
    FormatError
        If a line or a topic does not follow its format, or a qid comes twice.
    ValueError
        If the format is unknown, or ``field`` is given for a format without fields.
    """
    lines = numbered_lines(path, encoding)
    first = next(lines, None)
    if first is None:
        return
    name = format or _recognise_format(path, *first)
    if name not in _READERS:
        raise ValueError(f"a topics format is one of {', '.join(_READERS)}, got {name!r}")
    if field is not None and name in {"tsv", "car"}:
        raise ValueError(f"{path}: topics in the format {name} have no fields, got field={field!r}")
    begun: dict[str, int] = {}
    for number, query in _READERS[name](path, chain([first], lines), field):
        check_id(query.qid, "qid", path, number)
        if begun.setdefault(query.qid, number) != number:
            raise FormatError(path, number, f"query {query.qid} once, as on line {begun[query.qid]}")
        yield query


def _recognise_format(path: str | Path, number: int, line: str) -> str:
    start = line.lstrip()
    if start.startswith("<"):
        return "trec"
    if start.startswith("{"):
        return "jsonl"
    if "\t" in line:
        return "tsv"
    if " " not in line and ("/" in line or line.startswith("enwiki:")):
        return "car"
    raise FormatError(path, number, "topics: <top>, {…}, a qid and a tab, or an outline path", line)


def _tsv(path: str | Path, lines: _Lines, _field: str | None) -> _Numbered:
    for number, line in lines:
        columns = line.split("\t")
        if len(columns) != 2:
            raise FormatError(path, number, "2 columns with a tab between: qid text", line)
        yield number, Query(*columns)


def _car(_path: str | Path, lines: _Lines, _field: str | None) -> _Numbered:
    for number, line in lines:
        headings = line.removeprefix("enwiki:").split("/")
        yield number, Query(line, " ".join(unquote(heading) for heading in headings))


def _jsonl(path: str | Path, lines: _Lines, field: str | None) -> _Numbered:
    for number, line in lines:
        record = parse_object(path, number, line)
        qid = first_value(record, _ID_KEYS)
        if isinstance(qid, bool) or not isinstance(qid, str | int):
            raise FormatError(path, number, f"a qid as {' or '.join(_ID_KEYS)}", line)
        keys = [(key,) for key in field.split("+")] if field else [_TEXT_KEYS]
        texts = [first_value(record, names) for names in keys]
        if not all(isinstance(text, str) for text in texts):
            raise FormatError(path, number, f"a text as {field or ' or '.join(_TEXT_KEYS)}", line)
        yield number, Query(str(qid), " ".join(texts))


def _trec(path: str | Path, lines: _Lines, field: str | None) -> _Numbered:
    names = (field or "title").split("+")
    for number, fields in _read_fields(path, lines):
        texts = []
        for name in ("num", *names):
            if _SAME.get(name, name) not in fields:
                raise FormatError(path, number, f"a <{name}> in the topic that begins here")
            texts.append(_unescape(fields[_SAME.get(name, name)]))
        yield number, Query(texts[0], " ".join(text for text in texts[1:] if text))


def _unescape(text: str) -> str:
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return _LABEL.sub("", " ".join(plain.split()))


def _read_fields(path: str | Path, lines: _Lines) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each topic's first line number and raw fields; a field ends at its end tag or the next field."""
    begun, name, fields = 0, "", dict[str, str]()
    for number, line in lines:
        for ends, tag, attributes, text in _split_at_tags(line):
            if tag in {"top", "topic"}:
                if ends != bool(begun):
                    what = "<top> before </top>" if ends else f"</top> for the topic of line {begun}"
                    raise FormatError(path, number, what, line)
                if ends:
                    yield begun, fields
                begun, name, fields = (0 if ends else number), "", _read_attributes(attributes)
            elif tag in _FIELDS:
                name = "" if ends else _FIELDS[tag]
            if not begun and text.strip():
                raise FormatError(path, number, "no text outside of <top> and </top>", text.strip())
            fields[name] = f"{fields.get(name, '')} {text}"
    if begun:
        raise FormatError(path, begun, "</top> for the topic that begins here, before the file ends")


def _split_at_tags(line: str) -> Iterator[tuple[bool, str, str, str]]:
    """Split a line before each tag: whether it is an end tag, its name and attributes, the text after it."""
    tags = list(_TAG.finditer(line))
    starts = [tag.start() for tag in tags] + [len(line)]
    yield False, "", "", line[: starts[0]]
    for tag, end in zip(tags, starts[1:], strict=True):
        yield tag[1] == "/", tag[2].lower(), tag[3], line[tag.end() : end]


def _read_attributes(text: str) -> dict[str, str]:
    number = _NUMBER.search(text)
    return {"num": number[1]} if number else {}


_READERS: dict[str, Callable[[str | Path, _Lines, str | None], _Numbered]] = {
    "trec": _trec,
    "tsv": _tsv,
    "jsonl": _jsonl,
    "car": _car,
}
