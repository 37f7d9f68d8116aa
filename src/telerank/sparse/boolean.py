"""Boolean retrieval: queries are expressions of words, and a document fulfils one or does not (score 1).

::

    query  = both ("OR" both)*
    both   = not (["AND"] not)*
    not    = "NOT" not | "(" query ")" | word

Operators are in capitals, so that no word is reserved: ``passport AND (lost OR stolen) NOT visa``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from telerank.errors import ExpressionError
from telerank.expressions import call_text, wrong
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.stage import Retriever
from telerank.types import Explanation, Phrase, Query, Ranking

Join: TypeAlias = Literal["and", "or"]
_STEP = re.compile(r"[()]|[^\s()]+")
_OPERATORS = ("OR", "AND")  # from the one that binds least tightly on
Documents: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operand:
    """A word of an expression."""

    word: str


Step: TypeAlias = Operand | str


def parse_boolean(text: str, join: Join = "and") -> tuple[Step, ...]:
    """An expression in postfix order: words, and the operators that work on what stands before them.

    ``join`` is the operator of words that stand side by side. An empty text is an empty expression.

    Raises
    ------
    ExpressionError
        If an operator lacks an operand, or a parenthesis its other one.
    """
    signs = {*_OPERATORS, "NOT", "(", ")"}
    steps = (
        (match[0] if match[0] in signs else Operand(match[0]), match.start())
        for match in _STEP.finditer(text)
    )
    return order_steps(text, steps, _OPERATORS, (join.upper(), "AND"))


def order_steps(
    text: str, steps: Iterable[tuple[T | str, int]], operators: Sequence[str], joins: tuple[str, str]
) -> tuple[T | str, ...]:
    """Operands, operators and parentheses of a text, with their places, in postfix order.

    ``operators`` stand between two operands; the first binds least tightly. ``NOT`` stands before one, and
    binds most tightly. ``joins`` are the operators of operands that stand side by side, and before ``NOT``.
    Nothing recurses.

    Raises
    ------
    ExpressionError
        If an operator lacks an operand, or a parenthesis its other one.
    """
    binding = {"(": 0, ")": 1, **{each: rank for rank, each in enumerate((*operators, "NOT"), 2)}}
    ordered: list[T | str] = []
    waiting: list[tuple[str, int]] = []  # operators and opening parentheses, with their places
    for step, at in _join_operands(text, steps, operators, joins):
        if not isinstance(step, str):
            ordered.append(step)
        elif step in ("(", "NOT"):
            waiting.append((step, at))
        else:  # a closing parenthesis waits for nothing inside
            while waiting and binding[waiting[-1][0]] >= binding[step]:
                ordered.append(waiting.pop()[0])
            if step != ")":
                waiting.append((step, at))
            elif waiting:
                waiting.pop()
            else:
                raise wrong(text, at, "expected '(' before )")
    if opened := [at for step, at in waiting if step == "("]:
        raise wrong(text, opened[-1], "'(' without ')'")
    return (*ordered, *(operator for operator, _ in reversed(waiting)))


def _join_operands(
    text: str, steps: Iterable[tuple[T | str, int]], operators: Sequence[str], joins: tuple[str, str]
) -> Iterator[tuple[T | str, int]]:
    """The steps with an operator between any two operands; raises ExpressionError if one is missing."""
    is_complete, last = False, ""  # whether an operand stands before, and what does
    for step, at in steps:
        if step in operators or step == ")":
            if not is_complete:
                raise wrong(text, at, f"expected a word before {step}")
        elif is_complete:
            yield joins[step == "NOT"], at
        yield step, at
        is_complete = not isinstance(step, str) or step == ")"
        last = step if isinstance(step, str) else ""
    if last and not is_complete:
        raise wrong(text, len(text), f"expected a word after {last}")


@dataclass(frozen=True, repr=False)
class BooleanRetriever(Retriever):
    """The documents that fulfil the expression that is the query; all have the score 1.

    A word of which the analyzer makes several terms needs all of them, or a synonym; one of which it makes
    none, such as a stop word, stands for nothing, and an expression of such words alone is fulfilled by no
    document. ``join`` (``and``, ``or``) is the operator of words that stand side by side.

    Raises
    ------
    ExpressionError
        If a query is no expression.
    """

    index: SparseIndex
    join: Join = "and"
    depth: int | None = None
    threads: int = field(default=1, compare=False)
    batch: int = field(default=1, compare=False)
    role = "words"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.join not in ("and", "or"):
            raise ExpressionError(f"boolean: expected join=and or join=or, got join={self.join}")

    @property
    def docs(self) -> IndexDocs:
        """The documents of the index."""
        return self.index.docs

    @property
    def call(self) -> str:
        return call_text("boolean", join=self.join)

    @property
    def sources(self) -> dict[str, object]:
        return {"index": self.index.identity}

    def rank_batch(self, queries: list[Query]) -> Iterator[Ranking]:
        for query in queries:
            steps = parse_boolean(query.text, self.join)
            fulfilled = (self._fulfilled(steps, number) for number in range(len(self.index.segments)))
            yield rank_alike(self.index, query, fulfilled, self.depth)

    def _fulfilled(self, steps: tuple[Step, ...], segment: int) -> Documents:
        """Which documents of a segment fulfil an expression, deleted ones included."""
        stack: list[Documents | None] = []
        for step in steps:
            if isinstance(step, Operand):
                stack.append(find_holding(self.index, step.word, segment))
            elif step == "NOT":
                last = stack.pop()
                stack.append(None if last is None else ~last)
            else:
                right, left = stack.pop(), stack.pop()
                if left is None or right is None:
                    stack.append(right if left is None else left)
                else:
                    stack.append(left & right if step == "AND" else left | right)
        result = stack.pop() if stack else None
        return np.zeros(len(self.index.segments[segment]), np.bool_) if result is None else result

    def explanation(self, query: Query, docno: str) -> Explanation:
        """Whether the document fulfils the expression, and which of its words it holds."""
        number, row = self.index.docs.locate(docno)
        steps = parse_boolean(query.text, self.join)
        parts = []
        for word in dict.fromkeys(step.word for step in steps if isinstance(step, Operand)):
            holding = find_holding(self.index, word, number)
            if holding is None:
                what = "{word!r}: has no term, and stands for nothing"
            else:
                what = "{word!r}: in the document" if holding[row] else "{word!r}: not in the document"
            parts.append(Explanation(float(holding is not None and holding[row]), Phrase(what, word=word)))
        is_fulfilled = bool(self._fulfilled(steps, number)[row])
        what = "fulfils the expression {query}" if is_fulfilled else "does not fulfil the expression {query}"
        return Explanation(float(is_fulfilled), Phrase(what, query=query.text), tuple(parts))


def rank_alike(index: SparseIndex, query: Query, selected: Iterable[Documents], depth: int | None) -> Ranking:
    """The ranking of the documents that are selected in each segment, all with the score 1."""
    docnos = list[str]()
    for segment, chosen in zip(index.segments, selected, strict=True):
        rows = np.flatnonzero(chosen & ~segment.deleted if len(segment.deleted) else chosen)
        first = rows[np.argsort(segment.docnos.rank[rows])[::-1][:depth]]
        docnos += segment.docnos.take(first.astype(np.uint32))
    ranking = Ranking.ranked(query, docnos, np.ones(len(docnos)))
    return ranking if depth is None else ranking.cut(depth)


def find_holding(index: SparseIndex, word: str, number: int) -> Documents | None:
    """Which documents of a segment hold all terms of a word, or a synonym; None if it has no term."""
    analyzer = index.analyzer
    terms = set(analyzer(word))
    if not terms:
        return None
    holding = hold_all(index, terms, number)
    synonyms = (index.term(term).numbers[number] for term in {*analyzer.query(word)} - terms)
    holding[index.segments[number].read_rows(*(known for known in synonyms if known >= 0))] = True
    return holding


def hold_all(index: SparseIndex, terms: Iterable[str], number: int) -> Documents:
    """Which documents of a segment hold all of some terms."""
    segment, known = index.segments[number], {index.term(term).numbers[number] for term in terms}
    if -1 in known:
        return np.zeros(len(segment), np.bool_)
    return np.asarray(np.bincount(segment.read_rows(*known), minlength=len(segment)) == len(known))
