"""Boolean retrieval: queries are expressions of words, and a document fulfils one or does not (score 1).

::

    query  = both ("OR" both)*
    both   = not (["AND"] not)*
    not    = "NOT" not | "(" query ")" | word

Operators are in capitals, so that no word is reserved: ``passport AND (lost OR stolen) NOT visa``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import ExpressionError
from telerank.expressions import call_text, wrong
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.stage import Retriever
from telerank.types import Explanation, Phrase, Query, Ranking

Join: TypeAlias = Literal["and", "or"]
_BINDING = {"(": 0, ")": 1, "OR": 2, "AND": 3, "NOT": 4}  # a closing parenthesis waits for nothing inside
_STEP = re.compile(r"[()]|[^\s()]+")
Documents: TypeAlias = npt.NDArray[np.bool_]


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
    steps: list[Step] = []
    waiting: list[tuple[str, int]] = []  # operators and opening parentheses, with their places
    for step, at in _join_words(text, join):
        if isinstance(step, Operand):
            steps.append(step)
        elif step in ("(", "NOT"):
            waiting.append((step, at))
        else:
            while waiting and _BINDING[waiting[-1][0]] >= _BINDING[step]:
                steps.append(waiting.pop()[0])
            if step != ")":
                waiting.append((step, at))
            elif waiting:
                waiting.pop()
            else:
                raise wrong(text, at, "expected '(' before )")
    if opened := [at for step, at in waiting if step == "("]:
        raise wrong(text, opened[-1], "'(' without ')'")
    return (*steps, *(operator for operator, _ in reversed(waiting)))


def _join_words(text: str, join: Join) -> Iterator[tuple[Step, int]]:
    """Words, operators and parentheses of a text, with their places; an operator between any two operands.

    Raises ExpressionError if an operand is missing.
    """
    is_complete, step = False, ""  # whether an operand stands before
    for match in _STEP.finditer(text):
        step, at = match[0], match.start()
        if step in ("AND", "OR", ")"):
            if not is_complete:
                raise wrong(text, at, f"expected a word before {step}")
        elif is_complete:
            yield "AND" if step == "NOT" else join.upper(), at
        yield step if step in _BINDING else Operand(step), at
        is_complete = step not in ("AND", "OR", "NOT", "(")
    if step and not is_complete:
        raise wrong(text, len(text), f"expected a word after {step}")


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
            raise ExpressionError(f"boolean: join must be and or or, got {self.join!r}")

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
            steps, docnos = parse_boolean(query.text, self.join), list[str]()
            for number, segment in enumerate(self.index.segments):
                fulfilled = self._fulfilled(steps, number)
                if len(segment.deleted):
                    fulfilled &= ~segment.deleted
                rows = np.flatnonzero(fulfilled)
                first = rows[np.argsort(segment.docnos.rank[rows])[::-1][: self.depth]]
                docnos += segment.docnos.take(first.astype(np.uint32))
            ranking = Ranking.ranked(query, docnos, np.ones(len(docnos)))
            yield ranking if self.depth is None else ranking.cut(self.depth)

    def _fulfilled(self, steps: tuple[Step, ...], segment: int) -> Documents:
        """Which documents of a segment fulfil an expression, deleted ones included."""
        stack: list[Documents | None] = []
        for step in steps:
            if isinstance(step, Operand):
                stack.append(self._holding(step.word, segment))
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

    def _holding(self, word: str, number: int) -> Documents | None:
        """Which documents of a segment hold all terms of a word; None if it has none."""
        analyzer, segment = self.index.analyzer, self.index.segments[number]
        terms = set(analyzer(word))
        if not terms:
            return None
        counts, has_synonym = np.zeros(len(segment), np.int32), np.zeros(len(segment), np.bool_)
        for term in terms.union(analyzer.query(word)):
            known = self.index.term(term).numbers[number]
            if known < 0:
                continue
            rows = segment.read_rows(known)
            if term in terms:
                counts[rows] += 1
            else:
                has_synonym[rows] = True
        return np.asarray((counts == len(terms)) | has_synonym)

    def explanation(self, query: Query, docno: str) -> Explanation:
        """Whether the document fulfils the expression, and which of its words it holds."""
        number, row = self.index.docs.locate(docno)
        steps = parse_boolean(query.text, self.join)
        parts = []
        for word in dict.fromkeys(step.word for step in steps if isinstance(step, Operand)):
            holding = self._holding(word, number)
            if holding is None:
                what = "{word!r}: has no term, and stands for nothing"
            else:
                what = "{word!r}: in the document" if holding[row] else "{word!r}: not in the document"
            parts.append(Explanation(float(holding is not None and holding[row]), Phrase(what, word=word)))
        is_fulfilled = bool(self._fulfilled(steps, number)[row])
        what = "fulfils the expression {query}" if is_fulfilled else "does not fulfil the expression {query}"
        return Explanation(float(is_fulfilled), Phrase(what, query=query.text), tuple(parts))
