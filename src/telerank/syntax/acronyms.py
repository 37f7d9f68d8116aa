"""Acronyms that the texts of an index explain, as a file of synonyms to edit.

"carte nationale d'identité (CNI)" and "CNI (carte nationale d'identité)" are found: the letters of the
acronym are the initials of the words before it, or in the parentheses, of which articles and other short
words may be left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from telerank.errors import count_noun
from telerank.types import Doc
from telerank.vocabulary.lexicon import fold

_BEFORE = re.compile(r"([^.;:,!?()\[\]\n\r]{4,160})\(\s*([A-Z][A-Z0-9&.-]{1,9})\s*\)")
_BEHIND = re.compile(r"(?<!\w)([A-Z][A-Z0-9&.-]{1,9})\s*\(([^.;:,!?()\[\]\n\r]{4,160})\)")
_WORD = re.compile(r"[^\W_]+")
_SHORT = 3  # letters of a word that an acronym may leave out


@dataclass(frozen=True)
class Acronym:
    """An acronym, what it stands for, and how many documents say so."""

    short: str
    long: str
    documents: int


def find_acronyms(docs: Iterable[Doc], least: int = 1) -> list[Acronym]:
    """The acronyms that ``least`` documents explain, those of most documents first."""
    counts: Counter[tuple[str, str]] = Counter()
    spelled: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for doc in docs:
        pairs = {(short, fold(long)): long for short, long in _explained(doc.full_text)}
        counts.update(pairs.keys())
        for key, long in pairs.items():
            spelled[key][long] += 1
    usual = {key: max(longs, key=lambda long: (longs[long], long)) for key, longs in spelled.items()}
    known = [Acronym(key[0], usual[key], count) for key, count in counts.items() if count >= least]
    return sorted(known, key=lambda each: (-each.documents, each.short, each.long))


def acronym_lines(acronyms: Iterable[Acronym]) -> Iterator[str]:
    """The lines of a file of synonyms to edit, with what to look at as comments."""
    meanings: dict[str, list[Acronym]] = defaultdict(list)
    for each in acronyms:
        meanings[each.short].append(each)
    yield "# Acronyms that the texts explain: delete what is wrong, and give the file to --synonyms."
    for short, known in meanings.items():
        for meaning in known:
            several = f"; {short} stands for {len(known)} things" if len(known) > 1 else ""
            yield f"# {count_noun(meaning.documents, 'document')}{several}"
            yield f"{short}, {meaning.long}"


def _explained(text: str) -> Iterator[tuple[str, str]]:
    for match in _BEFORE.finditer(text):
        if long := _match_initials(match[2], match[1]):
            yield _bare(match[2]), long
    for match in _BEHIND.finditer(text):
        long = _match_initials(match[1], match[2])
        if long and long == " ".join(match[2].split()):
            yield _bare(match[1]), long


def _bare(short: str) -> str:
    return short.replace(".", "").strip("-&")


def _match_initials(short: str, text: str) -> str:
    """The end of a text whose words have these initials; empty if there is none."""
    letters = [letter for letter in fold(short) if letter.isalnum()]
    words = list(_WORD.finditer(text))
    for word in reversed(words):
        if letters and fold(word[0])[0] == letters[-1]:
            letters.pop()
            if not letters:
                return " ".join(text[word.start() :].split())
        elif len(word[0]) > _SHORT:
            return ""
    return ""
