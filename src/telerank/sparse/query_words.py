"""The words of a query in an index: how many documents hold them, and other spellings of unknown ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from telerank.columns.filters import Filter
from telerank.sparse.index import SparseIndex
from telerank.sparse.similarities.base import Similarity
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms
from telerank.text.steps import fold_accents

# Postings that are counted: some ten milliseconds.
POSTINGS = 2_000_000


def count_matches(
    index: SparseIndex,
    text: str,
    chosen: Filter | None = None,
    similarity: Similarity | None = None,
    *,
    most: int = POSTINGS,
) -> int | None:
    """The documents that hold a term of a text, where a similarity reads it, and pass a filter.

    None if its terms have ``most`` postings or more.
    """
    find = index.lists(similarity).term
    if sum(term.df for term in {find(term) for term in index.analyzer(text)}) >= most:
        return None
    return sum(int(np.count_nonzero(rows)) for rows in matching_rows(index, text, chosen, similarity))


def matching_rows(
    index: SparseIndex, text: str, chosen: Filter | None = None, similarity: Similarity | None = None
) -> list[npt.NDArray[np.bool_]]:
    """For each segment, which documents hold a term of a text and pass a filter.

    A similarity says where terms are looked for; None: in the whole texts.
    """
    lists = index.lists(similarity)
    terms = {lists.term(term) for term in index.analyzer.query(text)}
    hidden = [segment.deleted for segment in index.segments] if chosen is None else index.docs.hidden(chosen)
    matching = []
    for number, (file, marks) in enumerate(zip(lists.files, hidden, strict=True)):
        holding = np.zeros(file.documents, np.bool_)
        known = (term.numbers[number] for term in terms)
        holding[file.read_rows(*(number for number in known if number >= 0))] = True
        if len(marks):
            holding &= ~marks
        matching.append(holding)
    return matching


# Spellings of a word, the most frequent ones.
MOST = 3
_LATER = 2  # vowels at the end of a word that are tried with accents: stemmers take "ité" off, not "ite"
_ACCENTS = "\u0300\u0301\u0302\u0303\u0308"  # grave, acute, circumflex, tilde, diaeresis


def respell(index: SparseIndex, query: str) -> str:
    """The query with each word that no document holds replaced by its spellings in the index, if it has any.

    Spellings differ in accents alone; several, such as ``côte côté`` for ``cote``, stand side by side.
    """
    parts, end = [], 0
    for term, start, stop in locate_terms(index.analyzer, query):
        is_known = start < end or index.term(term).df
        spellings = [] if is_known else find_spellings(index, query[start:stop])[:MOST]
        if spellings:
            parts += [query[end:start], " ".join(spellings)]
            end = stop
    return "".join((*parts, query[end:]))


def find_spellings(index: SparseIndex, word: str) -> list[str]:
    """Words that differ from a word in accents alone and whose terms documents hold, most frequent first.

    Each has one term. The index has terms, not words: a word is spelled with the accents of a term as far as
    the term goes, and the analyzer must make that term of it.
    """
    analyzer, spellings = index.analyzer, dict[str, str]()
    accented: dict[str, list[str]] = {}
    for variant in _variants(word.casefold()):
        for stem in analyzer(variant)[:1]:
            bare = fold_accents(stem)
            if bare not in accented:
                terms = (term for segment in index.segments for term in segment.terms.find_accented(bare))
                accented[bare] = [bare, *dict.fromkeys(terms)]
            for term in dict.fromkeys((stem, *accented[bare])):
                if not spellings.get(term) and index.term(term).df:
                    spellings[term] = _spell(analyzer, variant, term)
    ordered = sorted(spellings, key=lambda term: (-index.term(term).df, term))
    return [spellings[term] for term in ordered if spellings[term]]


def _variants(word: str) -> Iterator[str]:
    """The word, without accents, and with one on a vowel of its end, which stemmers look at."""
    yield from (word, fold_accents(word))
    ends = [end for end, letter in enumerate(word, 1) if letter in "aeiou"]
    for end in reversed(ends[-_LATER:]):
        for accent in _ACCENTS:
            yield unicodedata.normalize("NFC", f"{word[:end]}{accent}{word[end:]}")


def _spell(analyzer: Analyzer, word: str, term: str) -> str:
    """The word with the accents of a term; empty if the analyzer makes another term of it."""
    bare = fold_accents(term)
    texts = [term + word[end:] for end in range(1, len(word) + 1) if fold_accents(word[:end]) == bare]
    return next((text for text in (*texts[:1], word, term) if analyzer(text) == [term]), "")
