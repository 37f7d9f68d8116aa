"""A query in the simple syntax, read against an index: what ranks, and which documents fulfil it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from telerank.columns.filters import Filter, RowTest
from telerank.corpus.selection import select_rows
from telerank.errors import ExpressionError, count_noun
from telerank.expressions import quote
from telerank.sparse.boolean import Documents
from telerank.sparse.index import SparseIndex
from telerank.stage import Stage, change_stages
from telerank.syntax.listing import Listing
from telerank.syntax.matching import PartMatcher
from telerank.syntax.parser import OPERATOR_WORDS, TITLES, PartUse, TypedPart, TypedQuery, parse_typed
from telerank.types import Explanation, Phrase
from telerank.vocabulary.lexicon import WORD

MOST_RANKING = 30
"""Words of a beginning (``word*``) that rank."""
Effect: TypeAlias = Literal["ranks", "requires", "excludes", "alternative", "nothing"]


@dataclass(frozen=True)
class ReadPart:
    """A part of a query, and what it does.

    It ranks, documents must have it, or must not, or it is one possibility of several, or it does nothing,
    since the analyzer leaves its words out. ``documents`` have it, None if that was not needed; ``terms`` are
    those of so ``many`` that a beginning stands for. ``unread`` might have it, but were too many to be read,
    and count as documents that do not.
    """

    text: str
    kind: str
    effect: Effect
    documents: int | None = None
    terms: tuple[str, ...] = ()
    many: int = 0
    unread: int = 0
    selected: tuple[Documents, ...] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Conditions(RowTest):
    """The documents (rows,) of each segment of an index that fulfil the conditions of a query."""

    text: str
    index: SparseIndex = field(compare=False, repr=False)
    fulfilled: tuple[Documents, ...] = field(compare=False, repr=False)

    def select(self, folder: Path) -> Documents:
        """Raises ExpressionError for another index."""
        folders = [segment.docs.folder for segment in self.index.segments]
        if folder not in folders:
            raise ExpressionError(f"{self.text}: was read against another index")
        return self.fulfilled[folders.index(folder)]

    def passes(self, docno: str) -> bool:
        try:
            number, row = self.index.docs.locate(docno)
        except KeyError:
            return False
        return bool(self.fulfilled[number][row])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ReadQuery:
    """A query that was read: ``words`` are searched, among the documents that pass ``chosen``.

    ``problem`` says why it is a search for its words alone, ``notes`` what was taken as words. If it
    ``has_words`` not, the documents that fulfil its conditions are listed.
    """

    text: str
    words: str
    index: SparseIndex | None = field(default=None, compare=False, repr=False)
    chosen: Filter | None = None
    parts: tuple[ReadPart, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    has_words: bool = True
    within: Filter | None = None

    @classmethod
    def of_words(cls, text: str) -> ReadQuery:
        """A query that is words, without syntax."""
        return cls(text, text)

    def restrict(self, stage: Stage) -> Stage:
        """The stage among the documents that fulfil the conditions, before any cut.

        A query without words has their :class:`~telerank.syntax.listing.Listing` instead.
        """
        if self.chosen is None or self.index is None:
            return stage
        if not self.has_words:
            return Listing(self.index, self.chosen.both(self.within))
        docs = self.index.docs
        return change_stages(stage.filtered(self.chosen), lambda part: part.with_docs(docs))

    def explain(self, explanation: Explanation, docno: str) -> Explanation:
        """The explanation of a document's score, with the conditions that it fulfils."""
        if self.chosen is None or self.index is None:
            return explanation
        number, row = self.index.docs.locate(docno)
        parts = [explanation]
        for part in self.parts:
            if part.effect == "nothing":
                what = "{word!r}: has no term, and stands for nothing"
            elif part.selected is None:
                continue  # the explanation has its terms
            elif part.selected[number][row]:
                what = (
                    "{word!r}: in the document" if part.kind != "filter" else "{word!r}: so is the document"
                )
            else:
                what = (
                    "{word!r}: not in the document"
                    if part.kind != "filter"
                    else "{word!r}: the document is not"
                )
            is_held = part.selected is not None and bool(part.selected[number][row])
            parts.append(Explanation(float(is_held), Phrase(what, word=part.text)))
        whole = Phrase("fulfils the expression {query}", query=self.text)
        return Explanation(explanation.value, whole, tuple(parts))

    @property
    def kept(self) -> frozenset[str]:
        """What is no word that may be misspelt: operators, columns and their values, beginnings."""
        if not self.parts:
            return frozenset()
        others = (part.text for part in self.parts if part.kind in ("filter", "prefix"))
        return frozenset([*OPERATOR_WORDS, *TITLES, *chain.from_iterable(map(WORD.findall, others))])

    @property
    def record(self) -> dict[str, Any]:
        """How it was read, for JSON."""
        parts = [
            {each.name: getattr(part, each.name) for each in fields(ReadPart) if each.name != "selected"}
            for part in self.parts
        ]
        return {"words": self.words, "parts": parts, "problem": self.problem, "notes": list(self.notes)}

    @property
    def remarks(self) -> list[str]:
        """What a person should know of how the query was read."""
        lines = [f"read as words: {self.problem}"] if self.problem else []
        lines += self.notes
        for part in self.parts:
            if part.many > len(part.terms):
                lines.append(f"{part.text}: {len(part.terms)} of {part.many:,} terms that begin so")
            if part.effect == "nothing":
                lines.append(f"{part.text}: has no term, and stands for nothing")
            if part.unread:
                lines.append(f"{part.text}: {count_noun(part.unread, 'document')} with its words not read")
        return lines


def read_typed(index: SparseIndex, text: str, within: Filter | None = None) -> ReadQuery:
    """Read a query in the simple syntax (:mod:`.parser`) against an index.

    Only the documents ``within`` a filter are looked at, and counted.
    """
    typed = parse_typed(text, index.columns)
    if not typed.steps:
        return ReadQuery(text, text, index, problem=typed.problem, notes=typed.notes)
    try:
        return _Matching(index, typed, PartMatcher(index, within)).read()
    except ExpressionError as error:
        return ReadQuery(text, text, index, problem=str(error), notes=typed.notes)


@dataclass
class _Clauses:
    """Parts side by side: the documents that have all conditions, and the words that only rank.

    ``must`` is None without conditions; ``is_positive``: one of them is fulfilled by what a document has.
    """

    must: Documents | None
    is_positive: bool = False
    words: list[TypedPart] = field(default_factory=list)


@dataclass
class _Matching:
    """Finds the documents of a query, segment by segment."""

    index: SparseIndex
    typed: TypedQuery
    matcher: PartMatcher
    required: set[TypedPart] = field(default_factory=set)
    """Single words that became conditions."""

    def read(self) -> ReadQuery:
        typed, within = self.typed, self.matcher.within
        fulfilled = tuple(self._fulfilled(number) for number in range(len(self.index.segments)))
        parts = [self._describe(use) for use in dict.fromkeys(typed.uses)]
        ranking = (use.part for use in typed.uses if use.is_wanted)
        words = " ".join(chain.from_iterable(map(self._words, ranking)))
        chosen = None
        if any(each is not None for each in fulfilled):
            view = (
                ""
                if within is None
                else f", {hashlib.blake2b(within.text.encode(), digest_size=4).hexdigest()}"
            )
            name = f"matches({quote(typed.text)}{view})"
            chosen = Filter(
                name, Conditions(name, self.index, tuple(each for each in fulfilled if each is not None))
            )
        has_words = chosen is None or bool(self.index.analyzer(words))
        return ReadQuery(
            typed.text,
            words,
            self.index,
            chosen,
            tuple(parts),
            notes=typed.notes,
            has_words=has_words,
            within=within,
        )

    def _words(self, part: TypedPart) -> tuple[str, ...]:
        """The words of a part that rank."""
        if part.kind == "prefix":
            return self.matcher.expand(part.words).words[:MOST_RANKING] or (part.words,)
        return (part.words,) if part.words else ()

    def _fulfilled(self, number: int) -> Documents | None:
        """The documents of a segment that fulfil the conditions; None if there are none."""
        stack: list[_Clauses] = []
        for step in self.typed.steps:
            if isinstance(step, TypedPart):
                is_bare = step.is_bare
                stack.append(
                    _Clauses(None, words=[step]) if is_bare else _Clauses(self._select(step, number), True)
                )
                continue
            last = stack.pop()
            if step == "NOT":
                must, is_positive = self._settle(last, number)
                stack.append(_Clauses(None if must is None else ~must, not is_positive))
            elif step == "JOIN":
                stack[-1] = _join(stack[-1], last)
            else:
                sides = [self._settle(each, number) for each in (stack.pop(), last)]
                masks = [must for must, _ in sides if must is not None]
                join = np.logical_and if step == "AND" else np.logical_or
                positive = any(is_positive for _, is_positive in sides)
                stack.append(_Clauses(reduce(join, masks) if masks else None, positive))
        return stack.pop().must

    def _settle(self, clauses: _Clauses, number: int) -> tuple[Documents | None, bool]:
        """The documents that fulfil clauses; if nothing else must be there, one of their words must."""
        self.required.update(clauses.words)
        masks = [mask for part in clauses.words if (mask := self.matcher.select(part, number)) is not None]
        if clauses.must is not None and (clauses.is_positive or not masks):
            return clauses.must, clauses.is_positive
        must = reduce(np.logical_or, masks) if masks else None
        return (must if clauses.must is None or must is None else clauses.must & must), True

    def _select(self, part: TypedPart, number: int) -> Documents | None:
        if part.kind != "filter":
            return self.matcher.select(part, number)
        tree = Filter.parse(part.filter).bind(self.index.columns)
        return select_rows(self.index.segments[number].docs, tree)

    def _describe(self, use: PartUse) -> ReadPart:
        part = use.part
        effect: Effect = "requires" if use.is_wanted else "excludes"
        effect = "alternative" if use.is_alternative else effect
        if use.is_wanted and part.is_bare and part not in self.required:
            effect = "ranks"
        terms, many = tuple[str, ...](), 0
        if part.kind == "prefix":
            terms, many, _ = self.matcher.expand(part.words)
        elif part.words and not self.index.analyzer(part.words):
            effect = "nothing"
        if effect in ("ranks", "nothing"):
            return ReadPart(part.typed, part.kind, effect, None, terms, many)
        masks = [self._select(part, number) for number in range(len(self.index.segments))]
        selected = tuple(
            mask & own for mask, own in zip(masks, self.matcher.visible, strict=True) if mask is not None
        )
        count = sum(int(mask.sum()) for mask in selected)
        unread = self.matcher.unread.get(part.typed, 0)
        return ReadPart(part.typed, part.kind, effect, count, terms, many, unread, selected)


def _join(left: _Clauses, right: _Clauses) -> _Clauses:
    """Two parts side by side; ``left`` is changed, so that many take time in proportion."""
    left.words += right.words
    if left.must is None or right.must is None:
        left.must = right.must if left.must is None else left.must
    else:
        left.must = left.must & right.must
    left.is_positive |= right.is_positive
    return left
