"""The simple syntax of queries: its grammar, which reads any text at all.

::

    query   = clause*
    clause  = both ("OR" both)*
    both    = not ("AND" not)*
    not     = ("NOT" | "-") not | "(" query ")" | part
    part    = ["title:" | COLUMN ":"] (word | word "*" | '"' phrase '"')

``ET``, ``OU``, ``SAUF`` and ``titre:`` are the same in French; operators are in capitals. Clauses that are
single words rank, the others are conditions: a phrase, a title and a column must hold, what ``NOT`` or ``-``
stands before must not, and operators say themselves. What cannot be read so is a search for its words, and
:attr:`TypedQuery.problem` says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from telerank.columns.filters import FIELDS, Filter, quote_column, value_text
from telerank.errors import ExpressionError, FilterError, nearest_name, shorten
from telerank.expressions import wrong
from telerank.sparse.boolean import order_steps

Syntax: TypeAlias = Literal["none", "simple"]
"""How queries are read: as words alone, or in this syntax."""

OPERATORS = ("JOIN", "OR", "AND")
"""Those that stand between two parts, from the one that binds least tightly on; parts side by side JOIN."""
OPERATOR_WORDS = {"AND": "AND", "ET": "AND", "OR": "OR", "OU": "OR", "NOT": "NOT", "SAUF": "NOT"}
TITLES = ("title", "titre")
_CLOSING = {'"': '"', "“": "”", "«": "»"}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<sign>[()])
      | (?P<minus>(?<![^\s(])-(?=[^\s)-]))
      | (?:(?P<field>[^\W\d][\w.-]{0,199}):(?=[^\s():/]))?
        (?: (?P<quote>["“«]) | (?P<word>[^\s()"“”«»]+) )
      | (?P<other>[”»])
    )""",
    re.VERBOSE,
)
_BEGINNING = re.compile(r"([^*]{2,})\*+")
_VALUE = re.compile(r"(>=|<=|>|<)?(.+)", re.DOTALL)
MOST_PARTS, MOST_WORDS = 100, 50  # of a query with conditions; of a phrase
_MOST_STEPS, _MOST_NOTES = 4 * MOST_PARTS, 5


@dataclass(frozen=True, slots=True)
class TypedPart:
    """A part of a query as it was ``typed``: the ``words`` that it searches, or its ``filter``."""

    typed: str
    kind: Literal["word", "phrase", "prefix", "filter"]
    words: str = ""
    in_title: bool = False
    filter: str = ""

    @property
    def is_bare(self) -> bool:
        """Whether it is a word, or a beginning of words, that need not be in the title."""
        return self.kind in ("word", "prefix") and not self.in_title


class PartUse(NamedTuple):
    """A part in a query: whether it should be there, and whether it is one possibility of several."""

    part: TypedPart
    is_wanted: bool
    is_alternative: bool


Step: TypeAlias = TypedPart | str


@dataclass(frozen=True)
class TypedQuery:
    """A query that was read; ``steps`` are in postfix order, and none if it is words alone.

    ``problem`` says why it was not read in the syntax, if it was not; ``notes`` what was taken as words.
    """

    text: str
    steps: tuple[Step, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()

    @cached_property
    def uses(self) -> tuple[PartUse, ...]:
        """The parts in their order, and how each is used."""
        uses: list[PartUse] = []
        waiting = [(True, False)]
        for step in reversed(self.steps):
            is_wanted, is_alternative = waiting.pop()
            if isinstance(step, TypedPart):
                uses.append(PartUse(step, is_wanted, is_alternative))
            elif step == "NOT":
                waiting.append((not is_wanted, is_alternative))
            else:  # what must not be there together may be there alone
                waiting += [(is_wanted, is_alternative or (step == "OR") == is_wanted)] * 2
        return tuple(reversed(uses))


def parse_typed(text: str, columns: Mapping[str, str]) -> TypedQuery:
    """Read a query in the simple syntax; ``columns`` has the kinds of the documents' columns.

    It takes time in proportion to the text, and raises nothing.

    >>> [use for use in parse_typed('"carte vitale" -perte', {}).uses]
    """
    reader = _TextReader(text, columns)
    try:
        steps = order_steps(text, reader.steps(), OPERATORS, ("JOIN", "JOIN"))
        if not reader.has_syntax:
            return TypedQuery(text, notes=tuple(reader.notes))
    except ExpressionError as error:
        problem = str(error) if reader.has_syntax else ""  # parentheses alone are no syntax
        return TypedQuery(text, problem=problem, notes=tuple(reader.notes))
    if sum(isinstance(step, TypedPart) for step in steps) > MOST_PARTS or len(steps) > _MOST_STEPS:
        return TypedQuery(text, problem=f"more than {MOST_PARTS} words and conditions")
    return TypedQuery(text, steps, notes=tuple(reader.notes))


class _TextReader:
    """Reads the parts and operators of a text, one after another."""

    def __init__(self, text: str, columns: Mapping[str, str]) -> None:
        self.text, self.kinds = text, {**FIELDS, **columns}
        self.has_syntax = False
        self.notes: dict[str, None] = {}

    def steps(self) -> Iterator[tuple[Step, int]]:
        """Parts, operators and parentheses with their places; raises ExpressionError."""
        end = 0
        while token := _TOKEN.match(self.text, end):
            at, end = token.start(token.lastgroup or 0), token.end()
            if token["sign"]:
                yield token["sign"], at
            elif token["minus"] or (token["word"] in OPERATOR_WORDS and not token["field"]):
                self.has_syntax = True
                yield OPERATOR_WORDS.get(token["word"], "NOT"), at
            elif token["quote"]:
                inside, end = self._quoted(end, token["quote"])
                yield self._part(token["field"], inside, is_quoted=True), at
            elif token["word"]:
                yield self._part(token["field"], token["word"], is_quoted=False), at

    def _note(self, note: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes[note] = None

    def _quoted(self, start: int, mark: str) -> tuple[str, int]:
        """What stands in quotation marks, and the end of it."""
        self.has_syntax = True
        end = self.text.find(_CLOSING[mark], start)
        if end < 0:
            raise wrong(self.text, start, f"a quotation mark {mark} that is not closed")
        if len(self.text[start:end].split()) > MOST_WORDS:
            raise wrong(self.text, start, f"a phrase of more than {MOST_WORDS} words")
        return self.text[start:end], end + 1

    def _part(self, field: str | None, value: str, *, is_quoted: bool) -> TypedPart:
        in_title = field is not None and field.casefold() in TITLES
        if field is not None and not in_title and field not in self.kinds:
            near = nearest_name(self.kinds, field)
            self._note(f"{shorten(field, 40)}: is no column of the documents{near}")
            field, value = None, value if is_quoted else f"{field}:{value}"
        typed = f'"{value}"' if is_quoted else value
        typed = typed if field is None else f"{field}:{typed}"
        self.has_syntax |= field is not None
        if field is not None and not in_title:
            return TypedPart(typed, "filter", filter=self._filter(field, value, typed))
        if is_quoted:
            return TypedPart(typed, "phrase", value, in_title)
        if beginning := _BEGINNING.fullmatch(value):
            self.has_syntax = True
            return TypedPart(typed, "prefix", beginning[1], in_title)
        if "*" in value and value.strip("*"):
            self._note(f"{shorten(value, 40)}: * counts at the end of a word, behind two letters")
        return TypedPart(typed, "word", value, in_title)

    def _filter(self, column: str, value: str, typed: str) -> str:
        """The filter of ``column:value``, in its normal form."""
        kind = self.kinds[column]
        match = _VALUE.fullmatch(value)
        sign, bare = match.groups() if match else (None, "")
        if kind in ("string", "list"):
            sign, bare = None, value
        written = bare if kind in ("number", "boolean") else value_text(bare)
        name = quote_column(column)
        test = f"{written} in {name}" if kind == "list" else f"{name} {sign or '=='} {written}"
        try:
            chosen = Filter.parse(test)
            chosen.bind({name: kind for name, kind in self.kinds.items() if name not in FIELDS})
        except FilterError:
            raise ExpressionError(f"{shorten(typed, 80)}: the column {column} is a {kind}") from None
        return str(chosen)
