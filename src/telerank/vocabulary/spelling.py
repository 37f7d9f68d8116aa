"""Corrections of misspelt words: "did you mean …", from the words of the index.

A word is corrected if no document that is searched has it, nor a term that the analyzer makes of it. Those
within two edits (one for words of up to four letters) are compared: each is worth ln(documents) − 4 · cost,
where a wrong accent costs 0.2, a doubled or halved letter 0.6, two letters that are swapped 0.7, a key beside
the right one 0.7, and any other edit 1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container
from math import inf, log

from telerank.sparse.index import SparseIndex
from telerank.text.steps import fold_accents
from telerank.types import Progress, silent
from telerank.vocabulary.lexicon import LONGEST_WORD, Lexicon, fold, open_lexicon, split_words

_SHORTEST = 3  # letters of a word that is corrected
_MOST = 16  # words of a query that are corrected
_COMPARED = 60  # words that a word is compared with in detail
_WEIGHT = 4.0
_ACCENT, _DOUBLED, _SWAPPED, _BESIDE, _OTHER = 0.2, 0.6, 0.7, 0.7, 1.0
_KEYBOARDS = (("azertyuiop", "qsdfghjklm", "wxcvbn"), ("qwertyuiop", "asdfghjkl", "zxcvbnm"))


def _find_neighbours() -> set[tuple[str, str]]:
    """Letters whose keys are side by side, or one above the other, on a French or an English keyboard."""
    pairs = set()
    for rows in _KEYBOARDS:
        keys = {letter: (y, x + y / 2) for y, row in enumerate(rows) for x, letter in enumerate(row)}
        pairs |= {
            (letter, other)
            for letter, (y, x) in keys.items()
            for other, (v, u) in keys.items()
            if letter != other and abs(y - v) <= 1 and abs(x - u) <= 1
        }
    return pairs


NEIGHBOURS = _find_neighbours()


def correct(index: SparseIndex, query: str, progress: Progress = silent, *, kept: Container[str] = ()) -> str:
    """The query with its misspelt words corrected from the words of the index; the query itself if none is.

    At most 16 words are corrected, in their order; those that are ``kept`` stay as they are.
    """
    lexicon: Lexicon | None = None
    parts, end, corrected = [], 0, 0
    known: dict[str, str] = {}
    for match in split_words(query):
        word = unicodedata.normalize("NFC", match[0]).casefold()
        if word not in known:
            is_candidate = _SHORTEST <= len(word) <= LONGEST_WORD and corrected < _MOST
            if is_candidate and match[0] not in kept and not _is_found(index, word):
                lexicon = lexicon or open_lexicon(index, progress)
                corrected += 1
                known[word] = find_correction(lexicon, word)
            else:
                known[word] = ""
        if known[word]:
            parts += [query[end : match.start()], _with_case(known[word], match[0])]
            end = match.end()
    return "".join((*parts, query[end:]))


def _is_found(index: SparseIndex, word: str) -> bool:
    """Whether a document has a term of the word, or the analyzer leaves it out, such as a stop word."""
    terms = index.analyzer.query(word)
    return not terms or any(index.term(term).df for term in terms)


def _with_case(word: str, typed: str) -> str:
    if typed.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if typed[0].isupper() else word


def find_correction(lexicon: Lexicon, word: str) -> str:
    """The word of the index that was most likely meant; empty if there is none, or it is one itself."""
    if word in lexicon.words:
        return ""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    bare = fold(word)
    reach = 1 if len(bare) <= 4 else 2
    near: list[tuple[float, int, str]] = []
    for length in range(len(bare) - reach, len(bare) + reach + 1):
        forms = lexicon.forms.get(length, {})
        forms_near = process.extract(bare, forms.keys(), scorer=OSA.distance, score_cutoff=reach, limit=None)
        near += [(edits, -lexicon.words[each], each) for form, edits, _ in forms_near for each in forms[form]]
    compared = sorted(near)[:_COMPARED]
    worth = {each: log(-count) - _WEIGHT * edit_cost(word, each) for _, count, each in compared}
    return max(worth, key=lambda each: (worth[each], each), default="")


def edit_cost(typed: str, word: str) -> float:
    """The least cost of the edits that turn one into the other."""
    costs = [[inf] * (len(word) + 1) for _ in range(len(typed) + 1)]
    costs[0][0] = 0.0
    for i in range(len(typed) + 1):
        for j in range(len(word) + 1):
            best = costs[i][j]
            if i:
                best = min(best, costs[i - 1][j] + _cost_of_letter(typed, i - 1))
            if j:
                best = min(best, costs[i][j - 1] + _cost_of_letter(word, j - 1))
            if i and j:
                best = min(best, costs[i - 1][j - 1] + _cost_of_pair(typed[i - 1], word[j - 1]))
            if i > 1 and j > 1 and typed[i - 2 : i] == word[j - 2 : j][::-1]:
                best = min(best, costs[i - 2][j - 2] + _SWAPPED)
            costs[i][j] = best
    return costs[-1][-1]


def _cost_of_letter(text: str, at: int) -> float:
    """Of a letter that the other word lacks: less if the one before it is the same."""
    return _DOUBLED if at and text[at] == text[at - 1] else _OTHER


def _cost_of_pair(letter: str, other: str) -> float:
    if letter == other:
        return 0.0
    bare = fold_accents(letter), fold_accents(other)
    if bare[0] == bare[1]:
        return _ACCENT
    return _BESIDE if bare in NEIGHBOURS else _OTHER
