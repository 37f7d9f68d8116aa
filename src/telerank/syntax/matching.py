"""Which documents of an index have a part of a query that was typed: a word, a phrase, a beginning, a title.

The index knows which documents hold the terms of a phrase and, with positions, in which they follow each
other: these are read, and the phrase is looked for among the tokens that the index's own analyzer finds, for
stop words have no position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from telerank.columns.filters import Filter
from telerank.errors import ExpressionError
from telerank.sparse.boolean import Documents, find_holding, hold_all
from telerank.sparse.index import SparseIndex
from telerank.sparse.inverted.phrases import phrase_rows
from telerank.syntax.parser import TypedPart
from telerank.text import Analyzer
from telerank.text.steps import fold_accents
from telerank.vocabulary.lexicon import fold, open_lexicon

MOST_READ = 1_000_000
"""Terms of the documents that are read for a query: some seconds at most."""
MOST_TERMS = 100
"""Terms that a beginning stands for: those of most documents."""
_TITLE = 4  # terms that reading a title counts as
_MOST_BEGINNING = 50_000  # terms of a segment that may begin so

# A token as phrases compare it: its terms, or itself if it has none, such as a stop word.
Key: TypeAlias = tuple[str, ...]


class Beginning(NamedTuple):
    """The terms that a beginning of words stands for, of so ``many``, and words that have them."""

    terms: tuple[str, ...]
    many: int
    words: tuple[str, ...]


@dataclass
class PartMatcher:
    """Finds the documents of one query's parts, of those ``within`` a filter that are not deleted.

    ``unread`` counts, by part, the documents that might have it and were not read, since
    :data:`MOST_READ` terms were.
    """

    index: SparseIndex
    within: Filter | None = None
    left: int = MOST_READ
    unread: dict[str, int] = field(default_factory=dict)
    _beginnings: dict[str, Beginning] = field(default_factory=dict)
    _selected: dict[tuple[TypedPart, int], Documents | None] = field(default_factory=dict)

    @cached_property
    def visible(self) -> list[Documents]:
        """For each segment, the documents that are searched."""
        if self.within is not None:
            return [~hidden for hidden in self.index.docs.hidden(self.within)]
        return [
            ~segment.deleted if len(segment.deleted) else np.ones(len(segment), np.bool_)
            for segment in self.index.segments
        ]

    def select(self, part: TypedPart, number: int) -> Documents | None:
        """Which documents of a segment have a part that is no filter; None if it stands for nothing."""
        if (part, number) not in self._selected:
            self._selected[part, number] = self._select(part, number)
        return self._selected[part, number]

    def _select(self, part: TypedPart, number: int) -> Documents | None:
        if part.kind == "phrase":
            return self.select_phrase(part, number)
        analyzer, segment = self.index.analyzer, self.index.segments[number]
        if part.kind == "prefix":
            terms = {*self.expand(part.words).terms}
            known = (self.index.term(term).numbers[number] for term in terms)
            holding = np.zeros(len(segment), np.bool_)
            holding[segment.read_rows(*(each for each in known if each >= 0))] = True
            return self._keep(
                part,
                number,
                holding,
                lambda title: any(map(terms.intersection, _variant_terms(analyzer, title))),
            )
        if not part.in_title:
            return find_holding(self.index, part.words, number)
        variants = [terms for terms in _variant_terms(analyzer, part.words) if terms]
        holding = np.zeros(len(segment), np.bool_)
        for terms in variants:
            holding |= hold_all(self.index, terms, number)

        def has_word(title: str) -> bool:
            return any(own <= other for own in variants for other in _variant_terms(analyzer, title))

        return self._keep(part, number, holding, has_word) if variants else None

    def select_phrase(self, part: TypedPart, number: int) -> Documents | None:
        """Which documents of a segment have a phrase, in their title or in their text."""
        analyzer, phrases = self.index.analyzer, list[list[Key]]()
        segment, holding = self.index.segments[number], np.zeros(len(self.visible[number]), np.bool_)
        for tokens in analyzer.variants(part.words):
            if terms := [*chain.from_iterable(map(analyzer.terms, tokens))]:
                phrases.append(_keys(analyzer, tokens))
                if segment.positions is None:
                    holding |= hold_all(self.index, terms, number)
                else:
                    holding[phrase_rows(segment, terms)] = True
        if not phrases:
            return None
        # positions alone pass over stop words, and over where the title ends
        if max(map(len, phrases)) == 1 and not part.in_title:
            return holding

        def has_phrase(text: str) -> bool:
            keys = _keys(analyzer, analyzer.tokens(text))
            return any(_has_phrase(keys, phrase) for phrase in phrases)

        return self._keep(part, number, holding, has_phrase)

    def _keep(
        self, part: TypedPart, number: int, holding: Documents, has_part: Callable[[str], bool]
    ) -> Documents:
        """Those of a segment's documents whose title has a part, or whose text has a phrase."""
        if not part.in_title and part.kind != "phrase":
            return holding
        segment, kept = self.index.segments[number], np.zeros(len(holding), np.bool_)
        rows = np.flatnonzero(holding & self.visible[number])
        costs = np.full(len(rows), _TITLE) if part.in_title else segment.lengths[rows].astype(np.int64)
        read = int(np.searchsorted(np.cumsum(costs), self.left, "right"))
        self.left -= int(costs[:read].sum())
        if read < len(rows):
            self.unread[part.typed] = self.unread.get(part.typed, 0) + len(rows) - read
        titles = segment.docs.column("title")
        shown = [] if titles is None else titles.take(pa.array(rows[:read])).to_pylist()
        for row, title in zip(rows[:read].tolist(), shown, strict=True):
            is_there = title is not None and has_part(title)
            kept[row] = is_there or (not part.in_title and has_part(segment.docs.get_row(row).text))
        return kept

    def expand(self, beginning: str) -> Beginning:
        """The terms of documents that are searched, and begin so; those of most documents first."""
        if beginning not in self._beginnings:
            counts, spelled = self._count_beginning(beginning)
            terms = sorted(counts, key=lambda term: (-counts[term], term))
            words = (spelled.get(term, term) for term in terms[:MOST_TERMS])
            usual = tuple(dict.fromkeys(word for word in words if self.index.analyzer(word)))
            self._beginnings[beginning] = Beginning(tuple(terms[:MOST_TERMS]), len(terms), usual)
        return self._beginnings[beginning]

    def _count_beginning(self, beginning: str) -> tuple[dict[str, int], dict[str, str]]:
        """How many documents have each term, and words of the texts that have such terms."""
        analyzer, counts, spelled = self.index.analyzer, dict[str, int](), dict[str, str]()
        starts = {*analyzer.surfaces(beginning)}
        if len(starts) != 1:
            raise ExpressionError(f"{beginning}*: expected the beginning of one word")
        others = {*analyzer.query(beginning)}
        if self.within is None:  # words may be those of documents that a key does not see
            for word, _ in open_lexicon(self.index).words_starting(fold(beginning), MOST_TERMS):
                for term in analyzer.query(word):
                    spelled.setdefault(term, word)
        for number, segment in enumerate(self.index.segments):
            ranges = [segment.terms.starting(each) for each in starts | {*map(fold_accents, starts)}]
            if sum(map(len, ranges)) > _MOST_BEGINNING:
                raise ExpressionError(
                    f"{beginning}*: over {_MOST_BEGINNING:,} terms begin so; write more of it"
                )
            alone = (self.index.term(term).numbers[number] for term in others | {*spelled})
            numbers = np.unique([*chain(*ranges), *(each for each in alone if each >= 0)]).astype(np.int64)
            if len(numbers):
                rows = self.visible[number][segment.read_rows(*numbers.tolist())]
                firsts = np.cumsum([0, *(segment.df(each) for each in numbers[:-1].tolist())])
                for each, count in zip(
                    numbers.tolist(), np.add.reduceat(rows, firsts, dtype=np.int64), strict=True
                ):
                    if count:
                        term = segment.terms[each]
                        counts[term] = counts.get(term, 0) + int(count)
        return counts, spelled


def _keys(analyzer: Analyzer, tokens: Iterable[str]) -> list[Key]:
    return [analyzer.terms(token) or ("", token) for token in tokens]


def _variant_terms(analyzer: Analyzer, text: str) -> list[set[str]]:
    """The terms of a text in each language that it may have."""
    return [{*chain.from_iterable(map(analyzer.terms, tokens))} for tokens in analyzer.variants(text)]


def _has_phrase(keys: Sequence[Key], phrase: list[Key]) -> bool:
    start, first, length = -1, phrase[0], len(phrase)
    while True:
        try:
            start = keys.index(first, start + 1)
        except ValueError:
            return False
        if keys[start : start + length] == phrase:
            return True
