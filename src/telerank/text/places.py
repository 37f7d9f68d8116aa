"""The terms of a text with the characters of the text that they come from."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from telerank.text.analyzer import Analyzer
from telerank.text.steps import APOSTROPHES

_RUNS = re.compile(r"[\0-\x7f]*[ \t\n\r]|\s+|\S+")  # nothing of a run composes with what is outside


class TermPlace(NamedTuple):
    """A term, and its characters ``start`` to ``end`` (not included) in the text as it was given."""

    term: str
    start: int
    end: int


def locate_terms(analyzer: Analyzer, text: str, terms: Container[str] | None = None) -> Iterator[TermPlace]:
    """The terms that the analyzer makes of a text (or those of them in ``terms``), in order, with places.

    What an analyzer removes before an apostrophe is not part of the place: of ``l'État`` it is ``État``.
    Where normalizing moves characters across each other, the place is the whole run without blanks.
    """
    aligned = _Aligned.of(analyzer, text)
    for match in analyzer.matches(aligned.normalized):
        for term in analyzer.terms(match.token):
            if terms is None or term in terms:
                start = match.start + _elided(analyzer, match.token, term)
                yield TermPlace(term, aligned.start(start), aligned.end(match.end))


def _elided(analyzer: Analyzer, token: str, term: str) -> int:
    """How many characters of a token an elision removes."""
    ends = [i + 1 for i, character in enumerate(token) if character in APOSTROPHES]
    return next((end for end in reversed(ends) if term in analyzer.terms(token[end:])), 0)


class _Stretch(NamedTuple):
    """Text that was normalized for itself; each of its characters became one if it ``is_exact``."""

    normalized: str
    start: int
    end: int
    is_exact: bool


@dataclass(frozen=True)
class _Aligned:
    """A normalized text, its units, and where each of them begins in it."""

    normalized: str
    units: list[_Stretch] = field(repr=False)
    begins: list[int] = field(repr=False)

    @classmethod
    def of(cls, analyzer: Analyzer, text: str) -> _Aligned:
        whole = analyzer.normalize(text)
        if len(whole) == len(text) and _keeps_places(analyzer, text):
            return cls(whole, [_Stretch(whole, 0, len(text), is_exact=True)], [0])
        units: list[_Stretch] = []
        known: dict[str, list[_Stretch]] = {}
        for match in _RUNS.finditer(text):
            start, run = match.start(), match[0]
            for normalized, first, last, is_exact in known.get(run) or known.setdefault(
                run, _units(analyzer, run)
            ):
                units.append(_Stretch(normalized, start + first, start + last, is_exact))
        begins, length = [], 0
        for unit in units:
            begins.append(length)
            length += len(unit.normalized)
        return cls("".join(unit.normalized for unit in units), units, begins)

    def start(self, position: int) -> int:
        """Where the character at a position of the normalized text begins in the text."""
        number = bisect_right(self.begins, position) - 1
        unit = self.units[number]
        return unit.start + (position - self.begins[number] if unit.is_exact else 0)

    def end(self, position: int) -> int:
        """Where the character before a position of the normalized text ends in the text."""
        number = bisect_right(self.begins, position - 1) - 1
        unit = self.units[number]
        return unit.start + position - self.begins[number] if unit.is_exact else unit.end


def _keeps_places(analyzer: Analyzer, text: str) -> bool:
    """Whether each character of a text, whose length stays, becomes one, and none moves or composes."""
    for character in set(text):
        if not character.isascii():
            normalized = analyzer.normalize(character)
            if len(normalized) != 1 or any(map(unicodedata.combining, (character, normalized))):
                return False
    return True


def _units(analyzer: Analyzer, run: str) -> list[_Stretch]:
    """The smallest parts of a run that normalize independently: a character with its combining marks."""
    whole = analyzer.normalize(run)
    if run.isascii():
        return [_Stretch(whole, 0, len(run), is_exact=len(whole) == len(run))]
    cuts = [i for i, character in enumerate(run) if i == 0 or not unicodedata.combining(character)]
    spans = zip(cuts, [*cuts[1:], len(run)], strict=True)
    units = [
        _Stretch(
            normalized := analyzer.normalize(run[start:end]), start, end, end - start == len(normalized) == 1
        )
        for start, end in spans
    ]
    if "".join(unit.normalized for unit in units) != whole:
        return [_Stretch(whole, 0, len(run), is_exact=False)]
    if all(unit.is_exact for unit in units):
        return [_Stretch(whole, 0, len(run), is_exact=True)]
    return units
