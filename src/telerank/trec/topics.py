"""Topics files: TREC's SGML, tab-separated and JSON lines, outline paths of TREC-CAR, SMART's records, …

SMART's files have records that begin with ``.I`` and a number, of fields that begin with ``.T``, ``.W``, ….
Cornell's system read documents and queries so (Salton, 1971); Cranfield, CISI, MED, ADI and CACM usually come
in this form. A line before the first record (``.X`` in CISI) is skipped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from telerank.errors import ArgumentError, FormatError
from telerank.trec.files import Format, check_id, first_value, numbered_lines, parse_object, recognise_line
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

_RECORD = re.compile(r"\.I(?:\s+(.*))?")
_FIELD = re.compile(r"\.([A-Z])\s*")
_KNOWN = "TAWBXKCN"
# A number of a document or a query; the group has it without leading zeros.
NUMBER = re.compile(r"0*(0|[1-9][0-9]{0,17})")


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
        form = recognise_line(path, first[0], "topics", first[1], TOPICS_FORMATS.values())
    elif format in TOPICS_FORMATS:
        form = TOPICS_FORMATS[format]
    else:
        raise ArgumentError(f"a topics format is one of {', '.join(TOPICS_FORMATS)}, got {format!r}")
    if field is not None and form.name in {"docs", "tsv", "car", "smart"}:
        raise ArgumentError(f"{path}: topics in the format {form.name} have no fields, got field={field!r}")
    begun: dict[str, int] = {}
    for number, query in form.read(path, chain([first], lines), field):
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
        yield (
            number,
            Query(line, " ".join(unquote(heading) for heading in line.removeprefix("enwiki:").split("/"))),
        )


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
    return _LABEL.sub("", " ".join(_ENTITY.sub(lambda entity: html.unescape(entity[0]), text).split()))


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
                begun, name, fields = (0 if ends else number), "", dict[str, list[str]]()
                if attribute := _NUMBER.search(attributes):
                    fields["num"] = [attribute[1]]
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


@dataclass(frozen=True)
class SmartRecord:
    """A record: the number of its first line, what follows ``.I``, and the lines of each field by letter."""

    line: int
    number: str
    fields: dict[str, list[str]]

    def text(self, field: str) -> str:
        """The text of a field, empty without it; lines are kept."""
        return "\n".join(self.fields.get(field, ())).strip()

    @property
    def id(self) -> str | None:
        """The number without leading zeros, or None if it is not a whole number."""
        match = NUMBER.fullmatch(self.number)
        return match and match[1]


def starts_smart(lines: list[str]) -> bool:
    """Whether the first of these lines, or the second, begins a record."""
    return any(_RECORD.fullmatch(line.rstrip()) for line in lines[:2])


def read_records(path: str | Path, lines: Iterator[tuple[int, str]]) -> Iterator[SmartRecord]:
    """Read the records of numbered lines; a field that comes twice continues."""
    record: SmartRecord | None = None
    held: list[str] = []
    for position, (number, line) in enumerate(lines):
        if match := _RECORD.fullmatch(line):
            if record:
                yield record
            record = SmartRecord(number, (match[1] or "").strip(), {})
        elif match := _FIELD.fullmatch(line):
            if match[1] not in _KNOWN:
                raise FormatError(path, number, f"a field of .{' .'.join(_KNOWN)}", line)
            if record:
                held = record.fields.setdefault(match[1], [])
        elif record and record.fields:
            held.append(line)
        elif record or position:
            raise FormatError(path, number, "a field (.T, .W, …)" if record else ".I and a number", line)
    if record:
        yield record


_FORMATS: tuple[Format[str, _Numbered], ...] = (
    Format(
        "trec",
        lambda line: [
            (
                line.lstrip().startswith("<") and line.lstrip()[:4].lower() != "<doc",
                "its first line does not begin with <top>",
            )
        ],
        _trec,
        "<top> with <num>, <title>, <desc>, <narr>",
    ),
    Format(
        "jsonl",
        lambda line: [
            ("{" in line, ""),
            (line.lstrip().startswith("{"), "its first line is not a JSON object"),
        ],
        _jsonl,
        "a JSON object a line: qid (or _id, id), text (or query)",
    ),
    Format(
        "smart",
        lambda line: [
            (line.startswith("."), ""),
            (starts_smart([line]), "its first line is not .I and a number"),
        ],
        _smart,
        "records of .I and .W",
    ),
    Format(
        "tsv",
        lambda line: [
            (len(line.split()) > 1, ""),
            ("\t" in line, "its first line has no tab between qid and text"),
        ],
        _tsv,
        "qid, a tab, text",
    ),
    Format(
        "car",
        lambda line: [
            (
                "/" in line or line.startswith("enwiki:"),
                "its first line is not an outline path: no slash",
            ),
            (not line.split()[1:], "its first line is not an outline path: blanks"),
        ],
        _car,
        "outline paths of TREC-CAR, one a line",
    ),
    Format(
        "docs",
        lambda line: [
            (line.lstrip()[:4].lower() == "<doc", "its first line does not begin with <DOC>"),
        ],
        _docs,
        "<DOC> with <DOCNO>, the rest is the text",
    ),
)
# The formats of topics by name; the first that a file's first line has is its format.
#
# Their readers take the path, the numbered lines, and the field that is the text.
TOPICS_FORMATS: Mapping[str, Format[str, _Numbered]] = {form.name: form for form in _FORMATS}
