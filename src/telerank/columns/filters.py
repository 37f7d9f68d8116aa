"""Filters of documents by their columns: a small grammar, its tree, and what a tree means.

::

    filter  = part ("or" part)*
    part    = factor ("and" factor)*
    factor  = "not" factor | "(" filter ")" | test
    test    = column ("==" | "!=" | "<" | "<=" | ">" | ">=") value
            | column ["not"] "in" "[" value ("," value)* "]"
            | value ["not"] "in" column            a list that holds it
            | column "is" ["not"] "null"
    column  = name | `quoted name`
    value   = "text" | 'text' | 12.5 | 2024-01-31 | true | false

``type == "fiche" and date >= 2024-01-01 and "emploi" in topics``

A document without a value passes no test but ``is null``, ``!=`` and ``not in``, which are ``not`` of ``==``
and ``in``; so ``not`` has no third case. Texts are compared as they are, by their characters.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from telerank.errors import FilterError, known_names, shorten
from telerank.expressions import TokenReader, number_text, wrong

Value: TypeAlias = str | int | float | bool | date

# What every document has, besides its columns; without a title, a URL or a file it has no value there.
FIELDS: Mapping[str, str] = dict.fromkeys(("docno", "title", "url", "file"), "string")
_LONGEST = 1 << 16  # characters
_LONGEST_NAME = 200
_MOST_TESTS, _MOST_VALUES, _DEEPEST = 200, 10_000, 50
_NAME = r"[^\W\d][\w.]*(?:[-:][\w.]+)*"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<date>\d{{4}}-\d{{2}}-\d{{2}}(?![\w-]))
      | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{{1,3}})?(?![\w.]))
      | (?P<word>{_NAME})
      | (?P<name>`(?:[^`]|``)+`)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>==|!=|<=|>=|[<>()\[\],])
      | (?P<end>\Z)
      | (?P<wrong>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = frozenset(("and", "or", "not", "in", "is", "null", "true", "false"))
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class ValueTest:
    """``column operator value``; the operator is ``==``, ``<``, ``<=``, ``>`` or ``>=``."""

    column: str
    operator: str
    value: Value
    at: int = 0

    def __str__(self) -> str:
        return f"{quote_column(self.column)} {self.operator} {value_text(self.value)}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column has one of the values; of a list it holds one of them."""

    column: str
    values: tuple[Value, ...]
    at: int = 0

    def text(self, operator: str = " in") -> str:
        return f"{quote_column(self.column)}{operator} [{', '.join(map(value_text, self.values))}]"

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class Holds:
    """The column is a list that holds the value."""

    column: str
    value: Value
    at: int = 0

    def __str__(self) -> str:
        return f"{value_text(self.value)} in {quote_column(self.column)}"


@dataclass(frozen=True, slots=True)
class IsNull:
    """The document has no value."""

    column: str
    at: int = 0

    def __str__(self) -> str:
        return f"{quote_column(self.column)} is null"


@dataclass(frozen=True, slots=True)
class Not:
    part: Tree

    def __str__(self) -> str:
        match self.part:
            case ValueTest(column, "==", value):
                return f"{quote_column(column)} != {value_text(value)}"
            case IsNull(column):
                return f"{quote_column(column)} is not null"
            case Holds(column, value):
                return f"{value_text(value)} not in {quote_column(column)}"
            case OneOf():
                return self.part.text(" not in")
        return f"not ({self.part})"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Two or more parts, of which every one holds."""

    parts: tuple[Tree, ...]

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Two or more parts, of which one holds."""

    parts: tuple[Tree, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


class RowTest(ABC):
    """A test that an index makes of its documents themselves; none stands in the text of a filter."""

    @abstractmethod
    def select(self, folder: Path) -> Any:
        """Which documents (rows,) of the segment in a folder pass."""

    @abstractmethod
    def passes(self, docno: str) -> bool:
        """Whether a document passes."""


Tree: TypeAlias = ValueTest | OneOf | Holds | IsNull | RowTest | Not | AllOf | AnyOf
Test: TypeAlias = ValueTest | OneOf | Holds | IsNull


@dataclass(frozen=True)
class Filter:
    """A filter; ``text`` is its normal form, by which filters are compared.

    >>> str(Filter.parse("type=='fiche' and not date<2024-01-01"))
    'type == "fiche" and not (date < 2024-01-01)'
    """

    text: str
    tree: Tree = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The filter of a text.

        Raises
        ------
        FilterError
            If it cannot be read; the message shows where.
        """
        if not isinstance(text, str):
            raise FilterError(f'expected a filter, such as type == "fiche", got {text!r:.60}')
        return _parsed(text)

    def both(self, other: Filter | None) -> Filter:
        """The filter that passes what both pass."""
        if other is None or other == self:
            return self
        tree = AllOf((*_parts(self.tree), *_parts(other.tree)))
        return Filter(str(tree), tree)

    def bind(self, kinds: Mapping[str, str]) -> Tree:
        """The tree with values of the kinds of columns: a text in place of a date is a date.

        Raises
        ------
        FilterError
            If a column is unknown, with the nearest name, or a value is not of its kind.
        """
        return _bind(self.tree, {**FIELDS, **kinds}, self.text)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=256)
def _parsed(text: str) -> Filter:
    tree = _FilterParser(text).parse()
    return Filter(str(tree), tree)


def quote_column(name: str) -> str:
    """The name of a column as it stands in a filter."""
    if re.fullmatch(_NAME, name) and name not in _WORDS:
        return name
    return f"`{name.replace('`', '``')}`"


def _parts(tree: Tree) -> tuple[Tree, ...]:
    return tree.parts if isinstance(tree, AllOf) else (tree,)


def value_text(value: Value) -> str:
    """A value as it stands in a filter."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int | float):
        return number_text(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _FilterParser(TokenReader):
    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise FilterError(f"a filter has at most {_LONGEST:,} characters, got {len(text):,}")
        self.tests = 0
        super().__init__(text, _TOKEN)

    def parse(self) -> Tree:
        tree = self._any()
        if self.kind != "end":
            raise self._error("'and', 'or' or the end")
        return tree

    def _any(self) -> Tree:
        parts = [self._all()]
        while self._takes("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self) -> Tree:
        parts = [*_parts(self._factor())]
        while self._takes("and"):
            parts += _parts(self._factor())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _factor(self) -> Tree:
        negations = 0
        while self._takes("not"):
            negations += 1
        if self._takes("("):
            self.depth += 1
            if self.depth > _DEEPEST:
                raise self._wrong(f"more than {_DEEPEST} brackets within each other")
            tree = self._any()
            self._expect(")", "'and', 'or' or ')'")
            self.depth -= 1
        else:
            tree = self._test()
        return _negate(tree) if negations % 2 else tree

    def _test(self) -> Tree:
        self.tests += 1
        if self.tests > _MOST_TESTS:
            raise self._wrong(f"more than {_MOST_TESTS} tests")
        if self._is_column():
            return self._of_column()
        value = self._value("a test such as type == \"fiche\", 'not' or '('")
        if self.piece in _COMPARISONS:
            sign = _TURNED[self.piece]
            at = self._next()
            return _compare(self._column(), sign, value, at)
        is_negated = self._takes("not")
        at = self.begin
        self._expect("in", "'in' or a comparison")
        tree = Holds(self._column(), value, at)
        return Not(tree) if is_negated else tree

    def _of_column(self) -> Tree:
        column, at = self._column(), self.begin
        if self._takes("is"):
            is_negated = self._takes("not")
            self._expect("null", "'null'")
            return Not(IsNull(column, at)) if is_negated else IsNull(column, at)
        if self.piece in _COMPARISONS and self.kind == "sign":
            sign = self.piece
            self._next()
            return _compare(column, sign, self._value("a value: a text in quotes, a number, a date"), at)
        is_negated = self._takes("not")
        if not self._takes("in"):
            raise self._error(f"{' '.join(_COMPARISONS)}, 'in' or 'is' after the column {column}")
        self._expect("[", "'['")
        values = [self._value("a value")]
        while self._takes(","):
            values.append(self._value("a value"))
            if len(values) > _MOST_VALUES:
                raise self._wrong(f"more than {_MOST_VALUES:,} values")
        self._expect("]", "',' or ']'")
        tree = OneOf(column, tuple(values), at)
        return Not(tree) if is_negated else tree

    def _is_column(self) -> bool:
        return self.kind == "name" or (self.kind == "word" and self.piece not in _WORDS)

    def _column(self) -> str:
        if not self._is_column():
            raise self._error("the name of a column")
        name = self.piece[1:-1].replace("``", "`") if self.kind == "name" else self.piece
        if len(name) > _LONGEST_NAME:
            raise self._wrong(f"the name of a column has at most {_LONGEST_NAME} characters")
        self._next()
        return name

    def _value(self, expected: str) -> Value:
        kind, piece = self.kind, self.piece
        if kind == "word" and piece in ("true", "false"):
            self._next()
            return piece == "true"
        if kind == "date":
            try:
                value: Value = date.fromisoformat(piece)
            except ValueError:
                raise self._wrong(f"there is no day {piece}") from None
        elif kind == "number":
            value = float(piece)
            if abs(value) == float("inf"):
                raise self._wrong(f"expected a finite number, got {shorten(piece, 40)}")
        elif kind == "text":
            value = re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.DOTALL)
        else:
            hint = f': a text stands in quotes, "{piece}"' if self._is_column() else ""
            raise self._error(expected, hint)
        self._next()
        return value

    def _takes(self, piece: str) -> bool:
        if self.piece != piece or self.kind not in ("word", "sign"):
            return False
        self._next()
        return True

    def _expect(self, piece: str, expected: str) -> None:
        if not self._takes(piece):
            raise self._error(expected)

    def _error(self, expected: str, hint: str = "") -> FilterError:
        got = "the end" if self.kind == "end" else shorten(self.piece, 40)
        if self.kind == "wrong" and self.piece in "'\"`":
            got = "a quotation mark that is not closed"
        elif self.kind == "wrong" and self.piece == "=":
            got = "'=' (equal is '==')"
        return self._wrong(f"expected {expected}, got {got}{hint}")

    def _wrong(self, problem: str) -> FilterError:
        return FilterError(str(wrong(self.text, self.before, problem)))


def _compare(column: str, sign: str, value: Value, at: int) -> Tree:
    test = ValueTest(column, "==" if sign == "!=" else sign, value, at)
    return Not(test) if sign == "!=" else test


def _negate(tree: Tree) -> Tree:
    return tree.part if isinstance(tree, Not) else Not(tree)


def _bind(  # noqa: PLR0911 — a case for each kind of part
    tree: Tree, kinds: Mapping[str, str], text: str
) -> Tree:
    match tree:
        case Not(part):
            return Not(_bind(part, kinds, text))
        case AllOf(parts) | AnyOf(parts):
            return type(tree)(tuple(_bind(part, kinds, text) for part in parts))
        case RowTest():
            return tree
    if tree.column not in kinds:
        raise _mistake(tree, text, f"unknown column {tree.column!r}; {known_names(kinds, tree.column)}")
    kind = kinds[tree.column]
    match tree:
        case ValueTest(column, sign, value):
            if kind == "list" or (kind == "boolean" and sign != "=="):
                raise _mistake(tree, text, f"the column {column} is a {kind}: {_USAGE[kind].format(column)}")
            return ValueTest(column, sign, _fit(tree, text, kind, value), tree.at)
        case OneOf(column, values):
            inner = "string" if kind == "list" else kind
            return OneOf(column, tuple(_fit(tree, text, inner, value) for value in values), tree.at)
        case Holds(column, value):
            if kind != "list":
                raise _mistake(tree, text, f"the column {column} is a {kind}: {_USAGE[kind].format(column)}")
            return Holds(column, _fit(tree, text, "string", value), tree.at)
    return tree


_USAGE = {
    "string": '{} == "text"',
    "number": "{} == 12",
    "date": "{} >= 2024-01-31",
    "boolean": "{} == true",
    "list": '"text" in {}',
}


def _fit(test: Test, text: str, kind: str, value: Value) -> Value:
    """The value for a column of a kind."""
    if kind == "date" and isinstance(value, str):
        with suppress(ValueError):
            return date.fromisoformat(value)
    own = {"string": str, "number": float, "date": date, "boolean": bool}[kind]
    if isinstance(value, own):
        return value
    usage = _USAGE["list" if isinstance(test, Holds) else kind].format(test.column)
    what = "list of strings" if isinstance(test, Holds) else kind
    raise _mistake(test, text, f"the column {test.column} is a {what}, got {value_text(value)}: {usage}")


def passes(tree: Tree, values: Mapping[str, Any]) -> bool:  # noqa: PLR0911 — a case for each kind
    """Whether a document passes a bound filter: ``values`` are those of its fields and columns."""
    match tree:
        case Not(part):
            return not passes(part, values)
        case AllOf(parts):
            return all(passes(part, values) for part in parts)
        case AnyOf(parts):
            return any(passes(part, values) for part in parts)
        case RowTest():
            return tree.passes(values["docno"])
    value = values.get(tree.column)
    if value is None or value in ("", ()):
        return isinstance(tree, IsNull)
    match tree:
        case ValueTest(_, sign, bound):
            return bool(_COMPARE[sign](value, bound))
        case OneOf(_, bounds):
            return any(each in bounds for each in value) if isinstance(value, tuple) else value in bounds
        case Holds(_, bound):
            return bound in value
    return False


_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _mistake(test: Test, text: str, problem: str) -> FilterError:
    return FilterError(str(wrong(text, test.at, problem)))
