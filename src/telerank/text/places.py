"""The terms of a text with the characters of the text that they come from."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from telerank.text.analyzer import Analyzer
from telerank.text.tokenizers import APOSTROPHES

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
    known: dict[str, tuple[str, int]] = {}
    for match in analyzer.matches(aligned.normalized):
        token = match[0]
        term, elided = known.get(token) or known.setdefault(token, _term(analyzer, token, terms))
        if term:
            yield TermPlace(term, aligned.start(match.start() + elided), aligned.end(match.end()))


def _term(analyzer: Analyzer, token: str, terms: Container[str] | None) -> tuple[str, int]:
    """The term of a token if it is looked for, and how many characters of the token an elision removes."""
    term = analyzer.term(token)
    if not term or (terms is not None and term not in terms):
        return "", 0
    ends = [i + 1 for i, character in enumerate(token) if character in APOSTROPHES]
    return term, next((end for end in reversed(ends) if analyzer.term(token[end:]) == term), 0)


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
