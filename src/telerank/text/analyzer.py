"""Analyzers turn text into terms; an index stores and compares their text form.

The terms of a text with the characters of the text that they come from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from telerank.errors import AnalyzerError
from telerank.text.steps import (
    APOSTROPHES,
    TEXT_STEPS,
    TOKEN_STEPS,
    TOKENIZERS,
    Function,
    Step,
    Tokenizer,
    stop_words,
)

# none splits text at blanks and changes nothing.
#
# english and french follow Lucene's EnglishAnalyzer and FrenchAnalyzer, except for the differences
# listed in tests/parity/test_lucene_analysis.py. For French typed without accents: french|asciifold.
PRESETS = {
    "none": "whitespace",
    "standard": "nfkc|casefold|words",
    "english": "nfkc|casefold|words|possessive|stop(english)|snowball(porter)",
    "french": "nfkc|casefold|words|elision(french)|ligatures|stop(french)|snowball(french)",
}

_REMEMBERED = 1 << 17  # surface tokens


@dataclass(frozen=True, repr=False)
class Analyzer:
    """A chain of steps on text, one tokenizer, and steps on tokens; ``str`` and ``parse`` are inverse.

    Analyzers are equal if their text forms are. They can be pickled and shared by threads. Another order of
    steps is an AnalyzerError.
    """

    chain: tuple[Step, ...]
    _on_text: tuple[Function, ...] = field(init=False, repr=False, compare=False)
    _tokenizer: Tokenizer = field(init=False, repr=False, compare=False)
    _on_token: tuple[Function, ...] = field(init=False, repr=False, compare=False)
    _memo: _Memo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = [0 if s.name in TEXT_STEPS else 1 if s.name in TOKENIZERS else 2 for s in self.chain]
        if kinds.count(1) != 1 or kinds != sorted(kinds):
            raise AnalyzerError(
                f"an analyzer is steps on text ({', '.join(TEXT_STEPS)}), one tokenizer "
                f"({', '.join(TOKENIZERS)}), steps on tokens ({', '.join(TOKEN_STEPS)}), got {str(self)!r}"
            )
        cut = kinds.index(1)
        on_token = tuple(TOKEN_STEPS[s.name].make(s.argument) for s in self.chain[cut + 1 :])
        object.__setattr__(self, "_on_text", tuple(TEXT_STEPS[s.name] for s in self.chain[:cut]))
        object.__setattr__(self, "_tokenizer", TOKENIZERS[self.chain[cut].name])
        object.__setattr__(self, "_on_token", on_token)
        object.__setattr__(self, "_memo", _Memo((self._tokenizer.clean, *on_token)))

    @classmethod
    def parse(cls, text: str) -> Analyzer:
        """Read ``step|step(argument)|…``; a preset's name stands for its steps. Other text: AnalyzerError."""
        names = [part.strip() for part in text.split("|")]
        whole = "|".join(PRESETS.get(name, name) for name in names)
        if not text.strip():
            raise AnalyzerError(
                f"expected an analyzer: {', '.join(PRESETS)}, or steps joined by |; got nothing"
            )
        return cls(tuple(Step.parse(part) for part in whole.split("|")))

    @property
    def name(self) -> str:
        """The name of the preset with these steps, or the text form."""
        text = str(self)
        return next((name for name, steps in PRESETS.items() if steps == text), text)

    def __str__(self) -> str:
        return "|".join(map(str, self.chain))

    def __repr__(self) -> str:
        return f"Analyzer.parse({str(self)!r})"

    @property
    def classes(self) -> bytes:
        """The tokenizer's :attr:`~telerank.text.steps.Tokenizer.classes` of bytes."""
        return self._tokenizer.classes

    def normalize(self, text: str) -> str:
        """The text after the steps on text, in which tokens are found."""
        for apply in self._on_text:
            text = apply(text)
        return text

    def tokens(self, text: str) -> list[str]:
        """The surface tokens of a text, which :meth:`term` turns into terms."""
        tokens: list[str] = self._tokenizer.pattern.findall(self.normalize(text))
        return tokens

    def matches(self, normalized: str) -> Iterator[re.Match[str]]:
        """The surface tokens of a text that :meth:`normalize` returned, with their positions."""
        return self._tokenizer.pattern.finditer(normalized)

    def term(self, token: str) -> str:
        """The term of a surface token, or "" if it is dropped."""
        return self._memo[token]

    def __call__(self, text: str) -> list[str]:
        return [term for term in map(self._memo.__getitem__, self.tokens(text)) if term]

    def steps(self, text: str) -> Iterator[tuple[str, list[str]]]:
        """Yield each step's text form with its output: a list of one text, later of tokens."""
        cut = len(self._on_text)
        for step, apply in zip(self.chain, self._on_text, strict=False):
            text = apply(text)
            yield str(step), [text]
        tokens = [
            token for raw in self._tokenizer.pattern.findall(text) if (token := self._tokenizer.clean(raw))
        ]
        yield str(self.chain[cut]), tokens
        for step, apply in zip(self.chain[cut + 1 :], self._on_token, strict=True):
            tokens = [token for before in tokens if (token := apply(before))]
            yield str(step), tokens

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that depend on the terms of a fixed list of words.

        The text form names algorithms but not their versions. The fingerprint differs if a release of
        PyStemmer or of the Unicode tables would give queries other terms than the index has.
        """
        probe = "\n".join((_PROBE, *sorted(stop_words("french") | stop_words("english"))))
        return hashlib.blake2b("\n".join(self(probe)).encode(), digest_size=8).hexdigest()

    def __reduce__(self) -> tuple[type[Analyzer], tuple[tuple[Step, ...]]]:
        return type(self), (self.chain,)


class _Memo(dict[str, str]):
    """Terms by surface token, computed when first needed; emptied when full."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.functions = functions

    def __missing__(self, token: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        term = token
        for apply in self.functions:
            term = apply(term)
            if not term:
                break
        self[token] = term
        return term


# includes words on which releases of the Snowball algorithms are known to differ
_PROBE = """
relational conditional possibly analogy generously communities dying news inning skis proceed exceed
arguments happiness operating university organization national oscillators apologies evening intensely
L'État aujourd'hui cœurs œuvre qu'elle lorsqu'il prud'hommes impôts générales continuellement amoureux
chevaux majestueusement naïveté haïr jouaient finissions oui évidemment travailleuses ambiguïté suspicion
fauteuils logements cotisations bénéficiaires nécessité été créés hiboux jeux généralité Noël maïs
Straße ﬁn x² İstanbul ½ U.S.A. 3,14 1.5 e\u0301te\u0301 L’arrêté
"""


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
        token = match[0]
        term = analyzer.term(token)
        if term and (terms is None or term in terms):
            start = match.start() + _elided(analyzer, token, term)
            yield TermPlace(term, aligned.start(start), aligned.end(match.end()))


def _elided(analyzer: Analyzer, token: str, term: str) -> int:
    """How many characters of a token an elision removes."""
    ends = [i + 1 for i, character in enumerate(token) if character in APOSTROPHES]
    return next((end for end in reversed(ends) if analyzer.term(token[end:]) == term), 0)


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
