"""The grammar of pipelines and models as text: a tree of words, numbers, calls and operators.

::

    chain    = sum (">>" sum)*
    sum      = product ("+" product)*
    product  = operand (("*" | "%") operand)*
    operand  = number | word | 'quoted' | word "(" arguments ")" | "(" chain ")"
    argument = [(word | 'quoted' [.word]) "="] chain

That is Python's precedence. There is no subtraction and no division, so a word may hold ``- . / : @ ~``
(``my-reranker``, ``BAAI/bge-small-en-v1.5``, ``nDCG@10``). No word is reserved, and case counts.
What a word means is decided by what reads the tree, not here. A text or a tree that is not as expected
raises ExpressionError, whose message shows where.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from telerank.errors import ExpressionError, known_names

T = TypeVar("T")
_WORD = r"[\w./:@~-]+"
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w./:@~-]))
      | (?P<word>{_WORD})
      | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign>>>|[()*%+,=])
      | (?P<end>\Z)
      | (?P<wrong>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
# From those that bind least tightly on.
_OPERATORS = ((">>",), ("+",), ("*", "%"))
_DEEPEST = 100  # brackets within brackets
_CONTEXT = 40  # characters of the text that an error shows


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a number as it is written; ``number`` is its value if it is one, and it is not ``quoted``."""

    text: str
    at: int
    quoted: bool = False
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """``name(value, key=value)``; a positional argument has the key ``""``.

    A key that is quoted in the text stands as :func:`quoted_key` has it, with what follows the quotes.
    """

    name: str
    arguments: tuple[tuple[str, Expression], ...]
    at: int


@dataclass(frozen=True, slots=True)
class Operation:
    """``left operator right``; the operator is one of ``>> + * %``."""

    operator: str
    left: Expression
    right: Expression
    at: int


Expression: TypeAlias = Word | Call | Operation


def parse_expression(text: str) -> Expression:
    """The tree of a text."""
    return _Parser(text, _TOKEN).parse()


def walk(tree: Expression) -> Iterator[Expression]:
    """The tree and everything in it."""
    yield tree
    match tree:
        case Operation():
            yield from walk(tree.left)
            yield from walk(tree.right)
        case Call():
            for _, value in tree.arguments:
                yield from walk(value)


def quote(name: str) -> str:
    """The name as it can stand in a text: quoted unless it is a word."""
    if re.fullmatch(_WORD, name):
        return name
    return quoted_key(name)


def quoted_key(name: str) -> str:
    """The name in quotation marks."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def read_key(key: str) -> str:
    """The name that a key is, without its quotation marks if it has some."""
    return re.sub(r"\\(.)", r"\1", key[1:-1]) if key.startswith("'") else key


def depth_text(call: str, depth: int | None) -> str:
    """The text of a retriever: ``call``, cut to ``depth`` unless that is None."""
    return call if depth is None else f"{call} % {depth}"


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")


def call_text(name: str, *texts: str, **values: object) -> str:
    """``name(text, key=value)``: texts as they are, values quoted if needed, keys without a final ``_``."""
    parts = [*texts, *(f"{key.rstrip('_')}={_value_text(value)}" for key, value in values.items())]
    return f"{name}({', '.join(parts)})"


def wrong(text: str, at: int, problem: str) -> ExpressionError:
    """The error of a text: the problem, and what stands before position ``at``."""
    before = text[max(0, at - _CONTEXT) : at]
    shown = f"after {'…' if at > _CONTEXT else ''}{before!r}" if before.strip() else "at the beginning"
    return ExpressionError(f"{' '.join(text[:80].split())!r}: {problem} ({shown})")


def bind(call: Call, parameters: Iterable[str], text: str) -> Mapping[str, Expression]:
    """The arguments of a call by the names of the parameters that they are given for."""
    names = list(parameters)
    bound: dict[str, Expression] = {}
    for position, (key, value) in enumerate(call.arguments):
        if not key and position >= len(names):
            takes = f"{len(names)} argument{'' if len(names) == 1 else 's'}" if names else "no argument"
            raise wrong(text, value.at, f"{call.name} takes {takes}")
        name = key or names[position]
        if name not in names:
            raise wrong(text, value.at, f"{call.name} has no parameter {name!r}; {known_names(names, name)}")
        if name in bound:
            raise wrong(text, value.at, f"{call.name}: {name} is given twice")
        bound[name] = value
    return bound


def as_call(tree: Expression, text: str) -> Call:
    """The tree as a call; a word is a call without arguments."""
    match tree:
        case Call():
            return tree
        case Word():
            return Call(tree.text, (), tree.at)
    raise wrong(text, tree.at, "expected a name or a call, such as bm25(k1=0.9, b=0.4)")


def as_name(tree: Expression, text: str) -> str:
    """The text of a word."""
    if not isinstance(tree, Word):
        raise wrong(text, tree.at, "expected a name")
    return tree.text


def as_number(tree: Expression, text: str) -> float:
    """The value of a number."""
    if not isinstance(tree, Word) or tree.number is None:
        got = f", got {tree.text!r}" if isinstance(tree, Word) else ""
        raise wrong(text, tree.at, f"expected a number{got}")
    if not math.isfinite(tree.number):
        raise wrong(text, tree.at, f"expected a finite number, got {tree.text}")
    return tree.number


def whole_number(tree: Expression, text: str, *, least: int = 1) -> int:
    """The value of a whole number of at least ``least``."""
    number = as_number(tree, text)
    if not number.is_integer() or number < least:
        raise wrong(text, tree.at, f"expected a whole number of at least {least}, got {number_text(number)}")
    return int(number)


class TokenReader:
    """Reads the tokens of a text one after another; their kinds are the groups of a pattern."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.text, self.depth = text, 0
        self._tokens = pattern.finditer(text)
        self.begin = self.end = 0  # of the current token
        self._next()

    def _next(self) -> int:
        """Move behind the current token; the position where it begins."""
        at, self.before = self.begin, self.end
        token = next(self._tokens)
        self.kind = str(token.lastgroup)
        self.piece, (self.begin, self.end) = token[self.kind], token.span(self.kind)
        return at


class _Parser(TokenReader):
    def parse(self) -> Expression:
        tree = self._chain()
        if self.kind != "end":
            raise self._error("an operator (>> + * %) or the end")
        return tree

    def _chain(self, level: int = 0) -> Expression:
        """An operand, or operations whose operators bind at least as tightly as those of ``level``."""
        if level == len(_OPERATORS):
            return self._operand()
        tree = self._chain(level + 1)
        while (operator := self.piece) in _OPERATORS[level]:
            at = self._next()
            tree = Operation(operator, tree, self._chain(level + 1), at)
        return tree

    def _operand(self) -> Expression:
        kind, piece = self.kind, self.piece
        if piece == "(":
            return self._bracketed(self._chain, "an operator or ')'")
        if kind not in ("number", "word", "quoted"):
            raise self._error("a name, a number or '('")
        at = self._next()
        if kind == "number":
            return Word(piece, at, number=float(piece))
        if kind == "quoted":
            return Word(re.sub(r"\\(.)", r"\1", piece[1:-1]), at, quoted=True)
        if self.piece != "(":
            return Word(piece, at)
        return Call(piece, self._bracketed(self._arguments, "',' or ')'"), at)

    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        arguments: list[tuple[str, Expression]] = []
        while self.piece != ")":
            if arguments:
                self._expect(",", "',' or ')'")
            value = self._chain()
            key = self._key(value) if isinstance(value, Word) else ""
            if self.piece == "=" and key:
                self._next()
                arguments.append((key, self._chain()))
            elif arguments and arguments[-1][0]:
                raise wrong(self.text, value.at, "an argument without a name stands behind one with a name")
            else:
                arguments.append(("", value))
        return tuple(arguments)

    def _key(self, word: Word) -> str:
        """What a word is as the key of an argument; behind a quoted one ``.b`` may follow."""
        if not word.quoted:
            return word.text
        ending = self.piece if self.kind == "word" and self.piece.startswith(".") else ""
        if ending:
            self._next()
        return f"{quoted_key(word.text)}{ending}"

    def _bracketed(self, parse: Callable[[], T], expected: str) -> T:
        """What ``parse`` makes of the text between brackets."""
        self._next()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise wrong(self.text, self.before, f"more than {_DEEPEST} brackets within each other")
        inside = parse()
        self._expect(")", expected)
        self.depth -= 1
        return inside

    def _expect(self, sign: str, expected: str) -> None:
        if self.piece != sign:
            raise self._error(expected)
        self._next()

    def _error(self, expected: str) -> ExpressionError:
        got = "the end" if self.kind == "end" else repr(self.piece)
        if self.kind == "wrong" and self.piece in "'\"":
            got = "a quotation mark that is not closed"
        elif self.piece == "<":
            got = "'<': a stage of your own, or over texts in memory, cannot be read back"
        return wrong(self.text, self.before, f"expected {expected}, got {got}")


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(value)
    return quote(value) if isinstance(value, str) else repr(value)
