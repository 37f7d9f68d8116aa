"""Topics files: TREC's SGML, tab-separated and JSON lines, outline paths of TREC-CAR, SMART's queries, …"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from telerank.errors import FormatError
from telerank.trec.files import check_id, first_value, numbered_lines, parse_object
from telerank.trec.recognition import Conditions, holds, recognise_line
from telerank.trec.smart import read_records, starts_smart
from telerank.types import Query

_Lines: TypeAlias = Iterator[tuple[int, str]]
_Numbered: TypeAlias = Iterator[tuple[int, Query]]

_ID_KEYS = ("_id", "qid", "id", "query_id")
_TEXT_KEYS = ("text", "query", "title", "question")
_TAG = re.compile(r"<([/?!]?)([A-Za-z][\w-]*+)([^<>]*+)>")  # ++ and *+ never try a shorter match: linear cost
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});")
_NUMBER = re.compile(r"""\bnumber\s*+=[\s"']*+([^"'\s>]++)""")
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
    ``docs``
        ``<DOC>`` with ``<DOCNO>``, which is the qid; the rest is the text, as CACM's topics in Anserini.
    ``tsv``
        Lines of a qid, a tab and the text, which is kept as it is.
    ``jsonl``
        One object a line, with the qid as ``_id``, ``qid``, ``id`` or ``query_id``, and the text as
        the first present of ``text``, ``query``, ``title`` or ``question``, or as ``field`` names it.
    ``car``
        One outline path a line, which is the qid; its headings are the text.
    ``smart``
        Records of ``.I`` and a number, which is the qid without leading zeros; the text is ``.W``.

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
    if format is None:
        forms = {form: reader.conditions(first[1]) for form, reader in TOPICS_FORMATS.items()}
        format = recognise_line(path, first[0], "topics", first[1], forms)  # noqa: A001
    if format not in TOPICS_FORMATS:
        raise ValueError(f"a topics format is one of {', '.join(TOPICS_FORMATS)}, got {format!r}")
    if field is not None and format in {"docs", "tsv", "car", "smart"}:
        raise ValueError(f"{path}: topics in the format {format} have no fields, got field={field!r}")
    begun: dict[str, int] = {}
    for number, query in TOPICS_FORMATS[format].read(path, chain([first], lines), field):
        check_id(query.qid, "qid", path, number)
        if begun.setdefault(query.qid, number) != number:
            raise FormatError(path, number, f"query {query.qid} once, as on line {begun[query.qid]}")
        yield query


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


def _smart(path: str | Path, lines: _Lines, _field: str | None) -> _Numbered:
    for record in read_records(path, lines):
        if record.id is None or not record.text("W"):
            raise FormatError(path, record.line, "a number after .I, and a text after .W", record.number)
        yield record.line, Query(record.id, " ".join(record.text("W").split()))


def _docs(path: str | Path, lines: _Lines, _field: str | None) -> _Numbered:
    for number, fields in _read_fields(path, lines, ("doc",), {"docno": "num"}):
        if "num" not in fields:
            raise FormatError(path, number, "a <DOCNO> in the topic that begins here")
        yield number, Query(_unescape(fields["num"]), _unescape(fields[""]))


def _trec(path: str | Path, lines: _Lines, field: str | None) -> _Numbered:
    names = (field or "title").split("+")
    for number, fields in _read_fields(path, lines, ("top", "topic"), _FIELDS):
        texts = []
        for name in ("num", *names):
            if _SAME.get(name, name) not in fields:
                raise FormatError(path, number, f"a <{name}> in the topic that begins here")
            texts.append(_unescape(fields[_SAME.get(name, name)]))
        yield number, Query(texts[0], " ".join(text for text in texts[1:] if text))


def _unescape(text: str) -> str:
    plain = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return _LABEL.sub("", " ".join(plain.split()))


def _read_fields(
    path: str | Path, lines: _Lines, records: tuple[str, ...], names: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each topic's first line number and raw fields; a field ends at its end tag or the next field.

    ``records`` are the tags of topics, ``names`` has the name of the field for each tag of a field. Text that
    is in no field has the name ``""``.
    """
    opens, closes = f"<{records[0]}>", f"</{records[0]}>"
    begun, name, fields = 0, "", dict[str, list[str]]()
    for number, line in lines:
        for ends, tag, attributes, text in _split_at_tags(line):
            if tag in records:
                if ends != bool(begun):
                    what = f"{opens} before {closes}" if ends else f"{closes} for the topic of line {begun}"
                    raise FormatError(path, number, what, line)
                if ends:
                    yield begun, {field: " ".join(texts) for field, texts in fields.items()}
                begun, name, fields = (0 if ends else number), "", _read_attributes(attributes)
            elif tag in names:
                name = "" if ends else names[tag]
            if not begun and text.strip():
                raise FormatError(path, number, f"no text outside of {opens} and {closes}", text.strip())
            fields.setdefault(name, []).append(text)
    if begun:
        raise FormatError(path, begun, f"{closes} for the topic that begins here, before the file ends")


def _split_at_tags(line: str) -> Iterator[tuple[bool, str, str, str]]:
    """Split a line before each tag: whether it is an end tag, its name and attributes, the text after it."""
    tags = list(_TAG.finditer(line))
    starts = [tag.start() for tag in tags] + [len(line)]
    yield False, "", "", line[: starts[0]]
    for tag, end in zip(tags, starts[1:], strict=True):
        yield tag[1] == "/", tag[2].lower(), tag[3], line[tag.end() : end]


def _read_attributes(text: str) -> dict[str, list[str]]:
    number = _NUMBER.search(text)
    return {"num": [number[1]]} if number else {}


class TopicsFormat(NamedTuple):
    """A format of topics: its reader, and the conditions that the first line must meet."""

    read: Callable[[str | Path, _Lines, str | None], _Numbered]
    conditions: Callable[[str], Conditions]
    description: str


def _is_trec(line: str) -> Conditions:
    begins = line.lstrip().startswith("<") and not holds(_is_docs(line))
    yield begins, "its first line does not begin with <top>"


def _is_docs(line: str) -> Conditions:
    yield line.lstrip()[:4].lower() == "<doc", "its first line does not begin with <DOC>"


def _is_jsonl(line: str) -> Conditions:
    yield "{" in line, ""
    yield line.lstrip().startswith("{"), "its first line is not a JSON object"


def _is_tsv(line: str) -> Conditions:
    yield len(line.split()) > 1, ""
    yield "\t" in line, "its first line has no tab between qid and text"


def _is_car(line: str) -> Conditions:
    yield "/" in line or line.startswith("enwiki:"), "its first line is not an outline path: no slash"
    yield not line.split()[1:], "its first line is not an outline path: blanks"


def _is_smart(line: str) -> Conditions:
    yield line.startswith("."), ""
    yield starts_smart([line]), "its first line is not .I and a number"


TOPICS_FORMATS = {
    "trec": TopicsFormat(_trec, _is_trec, "<top> with <num>, <title>, <desc>, <narr>"),
    "jsonl": TopicsFormat(_jsonl, _is_jsonl, "a JSON object a line: qid (or _id, id), text (or query)"),
    "smart": TopicsFormat(_smart, _is_smart, "records of .I and .W"),
    "tsv": TopicsFormat(_tsv, _is_tsv, "qid, a tab, text"),
    "car": TopicsFormat(_car, _is_car, "outline paths of TREC-CAR, one a line"),
    "docs": TopicsFormat(_docs, _is_docs, "<DOC> with <DOCNO>, the rest is the text"),
}
"""The formats of topics by name; the first that a file's first line has is its format."""
