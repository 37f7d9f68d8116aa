"""Typed columns of documents: their kinds, which are declared or inferred, and values of them.

===========  ======================  ==============================================================
kind         in Python               in files
===========  ======================  ==============================================================
``string``   ``str``                 a text; anything that has no other kind, as JSON
``list``     ``tuple[str, ...]``     a list of strings; declared, also a cell: ``emploi; formation``
``number``   ``int`` or ``float``    a number that float64 has exactly, if it is whole
``date``     ``datetime.date``       ``2024-01-31``; of a time (``2024-01-31T08:00``) its day
``boolean``  ``bool``                ``true``, ``false``; declared, also ``yes``, ``no``, ``oui``, ``non``
===========  ======================  ==============================================================

A document without a value has none (null); so have blank texts, empty lists and numbers that are not numbers.
A kind is inferred from all values of a column: the first of the table, from below, that all of them have, and
``string`` if they have none in common. Texts are dates if they all are, but numbers only in files that have
no types (:class:`UntypedText`). Columns that are declared as ``none`` are not kept.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

from telerank.columns.filters import Filter, Tree, passes
from telerank.errors import ArgumentError, DocumentError, known_names, shorten
from telerank.types import ColumnDocs, ColumnValue, Doc, Docs, doc_values

# From the one that is preferred on.
KINDS = ("boolean", "number", "date", "string", "list")
LEFT_OUT = "none"
TEXT_KINDS = ("string", "list")
_EXPECTED = {
    "boolean": "true or false",
    "number": "a number",
    "date": "a date such as 2024-01-31",
    "string": "a text",
    "list": "a list of texts",
    LEFT_OUT: "nothing",
}
_MOST, _LONGEST = 1000, 200  # columns of a collection, characters of a name
_BOOLEANS = dict.fromkeys(("true", "yes", "oui", "vrai"), True) | dict.fromkeys(
    ("false", "no", "non", "faux"), False
)
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]{2,18}(?:Z|[+-][0-9:]{2,6})?)?")
_NONE: frozenset[str] = frozenset()


class UntypedText(str):
    """A text of a file without types, such as CSV: it may stand for a number or a truth value."""

    __slots__ = ()


def parse_columns(text: str) -> dict[str, str]:
    """The kinds of columns from a text: ``date:date topics:list "nom complet:string"``.

    Raises
    ------
    ArgumentError
        If it cannot be read, or there is no such kind.
    """
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise ArgumentError(f"columns: a quotation mark is not closed in {shorten(text)}") from error
    columns = {}
    for part in parts:
        name, colon, kind = part.rpartition(":")
        if not colon:
            raise ArgumentError(f"columns: expected NAME:KIND, such as date:date, got {shorten(part)}")
        columns[name] = kind
    return check_columns(columns)


def check_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The kinds of columns by name; raises ArgumentError if a name or a kind is none."""
    for name, kind in columns.items():
        check_name(name)
        if kind not in _EXPECTED:
            known = known_names(_EXPECTED, str(kind))
            raise ArgumentError(f"columns: {shorten(name)} has an unknown kind {kind!r:.60}; {known}")
    return dict(columns)


def is_name(name: object) -> bool:
    """Whether a column can have this name."""
    return isinstance(name, str) and bool(name.strip()) and name.isprintable() and len(name) <= _LONGEST


def check_name(name: object) -> None:
    """Raise ArgumentError if a column cannot have this name."""
    if not is_name(name):
        raise ArgumentError(
            f"the name of a column has 1 to {_LONGEST} printable characters, got {shorten(str(name))}"
        )


def flatten(record: Mapping[str, Any], taken: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The columns of a record of a file, without the keys that are ``taken``.

    Those of its object ``metadata``, as BEIR has it, are among them.
    """
    inner = record.get("metadata")
    if not isinstance(inner, dict):
        return {key: value for key, value in record.items() if key not in taken}
    columns = {key: value for key, value in record.items() if key not in taken and key != "metadata"}
    return {**{key: value for key, value in inner.items() if key not in columns}, **columns}


def plain_value(value: Any) -> Any:
    """A value as Python and JSON have it; None for what is none."""
    if isinstance(value, str):
        return value if value.strip() else None
    if value is None or isinstance(value, bool | int | date):
        return None if value is not None and value != value else value  # noqa: PLR0124 — pandas' NaT is a date
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
        return plain_value(value) if not isinstance(value, list) else value or None
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, list | tuple | set | frozenset | dict):
        return (value if isinstance(value, list | tuple | dict) else sorted(value, key=str)) or None
    return str(value)


def kinds_of(value: Any) -> frozenset[str]:
    """The kinds that a value has without being changed."""
    if isinstance(value, bool):
        return frozenset(("boolean",))
    if isinstance(value, int | float):
        return frozenset(("number",)) if _is_exact(value) else _NONE
    if isinstance(value, date):
        return frozenset(("date",))
    if isinstance(value, list | tuple):
        return frozenset(("list",)) if _are_texts(value) else _NONE
    if not isinstance(value, str):
        return _NONE
    kinds = {"string", "list"}
    if _DATE.fullmatch(value) and _read_date(value) is not None:
        kinds.add("date")
    if isinstance(value, UntypedText):
        kinds |= {"number"} if _PLAIN_NUMBER.fullmatch(value) else set()
        kinds |= {"boolean"} if value.lower() in ("true", "false") else set()
    return frozenset(kinds)


def coerce(value: Any, kind: str) -> ColumnValue | None:
    """A value (of :func:`plain_value`) as one of a kind; None if it is none of it."""
    return _COERCE[kind](value)


def _is_exact(value: float) -> bool:
    return isinstance(value, float) or abs(value) <= 2**53


def _are_texts(values: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(value, str | int) and not isinstance(value, bool) for value in values)


def _as_string(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer() and _is_exact(value):
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _as_list(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, UntypedText):
        return split_list(value)
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not _are_texts(value):
        return None
    return tuple(map(str, value))


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a text that lists several, between semicolons or bars, else between commas."""
    signs = ";|" if any(sign in text for sign in ";|") else ","
    return tuple(part.strip() for part in re.split(f"[{signs}]", text) if part.strip())


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or (isinstance(value, int) and not _is_exact(value)):
        return None
    return int(number) if number.is_integer() and _is_exact(int(number)) else number


def _as_date(value: Any) -> date | None:
    if isinstance(value, date):
        return value.date() if isinstance(value, datetime) else value
    return _read_date(value.strip()) if isinstance(value, str) else None


def _read_date(text: str) -> date | None:
    try:
        return datetime.fromisoformat(text).date() if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _as_boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().casefold())


_COERCE: Mapping[str, Callable[[Any], ColumnValue | None]] = {
    "boolean": _as_boolean,
    "number": _as_number,
    "date": _as_date,
    "string": _as_string,
    "list": _as_list,
}


class SchemaBuilder:
    """The kinds of columns, from what is declared and from the values of documents as they come."""

    def __init__(self, declared: Mapping[str, str]) -> None:
        self.declared = dict(declared)
        self._candidates: dict[str, frozenset[str]] = {}

    def add(self, doc: Doc) -> dict[str, Any]:
        """The values of a document: of declared columns as they are stored, of others as they came.

        Raises
        ------
        DocumentError
            If a value is not of the kind of its column, or a column cannot be stored.
        """
        values = {}
        for name, given in doc.columns.items():
            kind = self.declared.get(name)
            if kind == LEFT_OUT or (value := plain_value(given)) is None:
                continue
            if kind is None:
                if name not in self._candidates:
                    self._check_new(doc.docno, name)
                before = self._candidates.get(name)
                now = kinds_of(value)
                self._candidates[name] = now if before is None else before & now
            else:
                value = conform_value(doc.docno, name, value, kind)
            values[name] = value
        return values

    def finish(self) -> dict[str, str]:
        """The kind of each column that is kept."""
        inferred = {
            name: next((kind for kind in KINDS if kind in kinds), "string")
            for name, kinds in self._candidates.items()
        }
        return {**{name: kind for name, kind in self.declared.items() if kind != LEFT_OUT}, **inferred}

    def _check_new(self, docno: str, name: str) -> None:
        try:
            check_name(name)
        except ArgumentError as error:
            raise DocumentError(f"document {docno!r}: {error}") from error
        if len(self._candidates) + len(self.declared) >= _MOST:
            raise DocumentError(
                f"document {docno!r}: its column {shorten(name)} is one more than the {_MOST:,} that are kept"
            )


def conform_value(docno: str, name: str, value: Any, kind: str) -> ColumnValue:
    """A value as one of the kind of its column; raises DocumentError if it is none."""
    conforming = coerce(value, kind)
    if conforming is None:
        shown = shorten(value if isinstance(value, str) else json.dumps(value, default=str))
        expected = f"is a {kind}: expected {_EXPECTED[kind]}"
        raise DocumentError(f"document {docno!r}: its column {name!r} {expected}, got {shown}")
    return conforming


def conform_doc(doc: Doc, kinds: Mapping[str, str]) -> Doc:
    """The document as an index with these columns stores it; values that it cannot store stay."""
    if not doc.columns:
        return doc
    values = {}
    for name, given in doc.columns.items():
        kind, value = kinds.get(name), plain_value(given)
        if kind == LEFT_OUT or value is None:
            continue
        stored = None if kind is None else coerce(value, kind)
        values[name] = value if stored is None else stored
    return replace(doc, columns=values)


@dataclass(frozen=True)
class OpenFilter:
    """Whether a document of a docno is among documents, and passes a filter."""

    docs: Docs
    tree: Tree
    kinds: Mapping[str, str]

    def __call__(self, docno: str) -> bool:
        return docno in self.docs and passes(
            self.tree, doc_values(conform_doc(_read(self.docs, docno), self.kinds))
        )


def open_filter(docs: Docs, chosen: Filter) -> OpenFilter:
    """A filter over documents, which are read at once if they are in memory, to know the kinds of columns.

    Raises
    ------
    FilterError
        If a column is unknown or of another kind.
    """
    if isinstance(docs, ColumnDocs):
        kinds = docs.kinds
    else:
        schema = SchemaBuilder({})
        for docno in cast("Iterable[str]", docs):
            schema.add(_read(docs, docno))
        kinds = schema.finish()
    return OpenFilter(docs, chosen.bind(kinds), kinds)


def _read(docs: Docs, docno: str) -> Doc:
    doc = docs[docno]
    return Doc(docno, doc) if isinstance(doc, str) else doc
