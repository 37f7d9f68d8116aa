"""Analyzers turn text into terms; an index stores and compares their text form.

The terms of a text with the characters of the text that they come from.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeAlias

from telerank.errors import AnalyzerError, check_function
from telerank.text.languages import TAG, LanguageTokenizer
from telerank.text.steps import (
    APOSTROPHES,
    LANGUAGE,
    PRESETS,
    PYTHON,
    TEXT_STEPS,
    TOKEN_STEPS,
    TOKENIZERS,
    Function,
    Match,
    PythonTokenizer,
    Step,
    Tokenizer,
    stop_words,
)
from telerank.text.words import Synonyms


class TextDoc(Protocol):
    """What analyzers know of a document."""

    @property
    def full_text(self) -> str: ...

    @property
    def columns(self) -> Mapping[str, Any]: ...


AnyTokenizer: TypeAlias = Tokenizer | PythonTokenizer | LanguageTokenizer

_REMEMBERED = 1 << 17  # surface tokens
_BAR = re.compile(r"""\|(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")  # outside of quotes


@dataclass(frozen=True, repr=False)
class Analyzer:
    """A chain of steps on text, one tokenizer, and steps on tokens; ``str`` and ``parse`` are inverse.

    Analyzers are equal if their text forms are. They can be pickled and shared by threads. Another order of
    steps is an AnalyzerError.
    """

    chain: tuple[Step, ...]
    _on_text: tuple[Callable[[str], str], ...] = field(init=False, repr=False, compare=False)
    _tokenizer: AnyTokenizer = field(init=False, repr=False, compare=False)
    _on_token: tuple[Function | Synonyms, ...] = field(init=False, repr=False, compare=False)
    _memo: _Memo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tokenizers = (*TOKENIZERS, PYTHON, LANGUAGE)
        kinds = [0 if s.name in TEXT_STEPS else 1 if s.name in tokenizers else 2 for s in self.chain]
        if kinds.count(1) != 1 or kinds != sorted(kinds):
            raise AnalyzerError(
                f"an analyzer is steps on text ({', '.join(TEXT_STEPS)}), one tokenizer "
                f"({', '.join(tokenizers)}), steps on tokens ({', '.join(TOKEN_STEPS)}), got {str(self)!r}"
            )
        cut = kinds.index(1)
        object.__setattr__(self, "_on_text", tuple(TEXT_STEPS[s.name] for s in self.chain[:cut]))
        object.__setattr__(self, "_tokenizer", _open_tokenizer(self.chain[cut]))
        object.__setattr__(self, "_on_token", ())
        for number, step in enumerate(self.chain[cut + 1 :]):
            # the entries of its file pass through the steps before it
            object.__setattr__(self, "_memo", _Memo(self._tokenizer, self._on_token))
            function = TOKEN_STEPS[step.name].make(step, self)
            object.__setattr__(self, "_on_token", (*self._on_token[:number], function))
        object.__setattr__(self, "_memo", _Memo(self._tokenizer, self._on_token))
        contents = {s.argument: s.lines for s in self.chain if s.lines}
        if any(contents[s.argument] != s.lines for s in self.chain if s.lines):
            raise AnalyzerError(f"two files of an analyzer have the same name: {str(self)!r}")

    @classmethod
    def parse(cls, text: str, files: Mapping[str, Sequence[str]] | None = None) -> Analyzer:
        """Read ``step|step(argument)|…``; a preset's name stands for its steps. Other text: AnalyzerError.

        ``files`` has the lines of files by their names; others are read from the disk.
        """
        if not text.strip():
            raise AnalyzerError(
                f"expected an analyzer: {', '.join(PRESETS)}, or steps joined by |; got nothing"
            )
        whole = "|".join(PRESETS.get(name.strip(), name) for name in _BAR.split(text))
        return cls(_share_steps([Step.parse(part, files) for part in _BAR.split(whole)]))

    @classmethod
    def of(cls, function: Callable[[str], Iterable[str]], steps: str = "") -> Analyzer:
        """The analyzer that finds tokens by a function, and then applies steps on tokens.

        Indexes name the function by its module and name, and are opened for searching only where
        a program has called this with it: nothing is imported that an index names.

        >>> analyzer = Analyzer.of(my_tokenize, "stop(english)|snowball(porter)")
        """
        check_function("an analyzer", function, "text")
        return cls.parse(f"{PYTHON}('{_register(function)}'){'|' if steps else ''}{steps}")

    @classmethod
    def open(cls, source: Analyzer | str | Callable[[str], Iterable[str]]) -> Analyzer:
        """The analyzer itself, that of a text, or that of a function that finds tokens."""
        if isinstance(source, Analyzer):
            return source
        return cls.parse(source) if isinstance(source, str) else cls.of(source)

    @cached_property
    def _expands(self) -> bool:
        """Whether a query has other terms than a document of the same text."""
        expands = any(isinstance(each, Synonyms) and not each.is_indexed for each in self._on_token)
        return expands or isinstance(self._tokenizer, LanguageTokenizer)

    @property
    def is_portable(self) -> bool:
        """Whether another process can be given the analyzer: it finds functions by their names in modules."""
        return not isinstance(self._tokenizer, PythonTokenizer) or self._tokenizer.is_importable

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """The lines of the files that steps name."""
        return {step.argument: step.lines for step in self.chain if step.lines}

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
    def classes(self) -> bytes | None:
        """The tokenizer's classes of bytes; None if texts are not analysed in parts."""
        return self._tokenizer.classes

    def normalize(self, text: str) -> str:
        """The text after the steps on text, in which tokens are found."""
        for apply in self._on_text:
            text = apply(text)
        return text

    def tokens(self, text: str) -> list[str]:
        """The surface tokens of a text, which :meth:`terms` turns into terms."""
        return self._tokenizer.find(self.normalize(text))

    def surfaces(self, text: str) -> list[str]:
        """The surface tokens of a text as they stand in it, after the steps on text."""
        if isinstance(self._tokenizer, LanguageTokenizer):
            return self._tokenizer.surfaces(self.normalize(text))
        return self.tokens(text)

    def variants(self, text: str) -> list[list[str]]:
        """The surface tokens of a text in each language that it may have."""
        if isinstance(self._tokenizer, LanguageTokenizer):
            return self._tokenizer.variants(self.normalize(text))
        return [self.tokens(text)]

    def languages(self, text: str) -> dict[str, float]:
        """The probability of each language of a text, the likeliest first; none if there is one language."""
        if not isinstance(self._tokenizer, LanguageTokenizer):
            return {}
        return self._tokenizer.detect(self.normalize(text))

    def mark(self, doc: TextDoc, field: str | None = None) -> str:
        """The text of a document, or of a field of it, as it is analysed: with its language, if it has one.

        The language is what a column says; a field is in that of its document.
        """
        text = doc.full_text if field is None else field
        if not isinstance(self._tokenizer, LanguageTokenizer):
            return text
        whole = "" if field is None else self.normalize(doc.full_text)
        return self._tokenizer.mark(text, doc.columns, whole)

    def matches(self, normalized: str) -> Iterator[Match]:
        """The surface tokens of a text that :meth:`normalize` returned, with their places."""
        return self._tokenizer.match(normalized)

    def terms(self, token: str) -> tuple[str, ...]:
        """The terms of a surface token in a document; none if it is dropped."""
        return self._memo[token]

    def __call__(self, text: str) -> list[str]:
        return list(chain.from_iterable(map(self._memo.__getitem__, self.tokens(text))))

    def query(self, text: str) -> list[str]:
        """The terms of a query: those of a document, and their synonyms."""
        if not self._expands:
            return self(text)
        *_, (_, tokens) = self.steps(text)
        return tokens

    def steps(self, text: str) -> Iterator[tuple[str, list[str]]]:
        """Yield each step's text form with its output for a query: a list of one text, later of tokens."""
        cut = len(self._on_text)
        for step, on_text in zip(self.chain, self._on_text, strict=False):
            text = on_text(text)
            yield str(step), [text]
        tokenizer = self._tokenizer
        raw = tokenizer.find_query(text) if isinstance(tokenizer, LanguageTokenizer) else tokenizer.find(text)
        tokens = list(chain.from_iterable(_several(tokenizer.clean(each)) for each in raw))
        yield str(self.chain[cut]), tokens
        for step, apply in zip(self.chain[cut + 1 :], self._on_token, strict=True):
            if isinstance(apply, Synonyms):
                tokens = apply.of_query(tokens)
            else:
                tokens = list(chain.from_iterable(_several(apply(token)) for token in tokens))
            yield str(step), tokens

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that depend on the terms of a fixed list of words.

        The text form names algorithms but not their versions. The fingerprint differs if a release of
        PyStemmer or of the Unicode tables would give queries other terms than the index has, or if a line of
        a file, or the version of a tokenizer of the program, is another.
        """
        probe = "\n".join((_PROBE, *sorted(stop_words("french") | stop_words("english"))))
        facts = [f"{name}\0{line}" for name, lines in self.files.items() for line in lines]
        if isinstance(self._tokenizer, PythonTokenizer):
            facts.append(f"{self._tokenizer.name}\0{self._tokenizer.version}")
        elif isinstance(self._tokenizer, LanguageTokenizer):
            facts += self._tokenizer.facts
        return hashlib.blake2b("\n".join((*self(probe), *facts)).encode(), digest_size=8).hexdigest()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.chain, getattr(self._tokenizer, "function", None))


def _rebuild(chain: tuple[Step, ...], function: Callable[[str], Iterable[str]] | None) -> Analyzer:
    if function is not None:
        _register(function)
    return Analyzer(chain)


def _register(function: Callable[[str], Iterable[str]]) -> str:
    """The name of a function, by which analyzers find it from now on."""
    tokenizer = PythonTokenizer(function)
    _PYTHON_TOKENIZERS[tokenizer.name] = tokenizer
    return tokenizer.name


class _Memo(dict[str, tuple[str, ...]]):
    """Terms of documents by surface token, computed when first needed; emptied when full."""

    def __init__(self, tokenizer: AnyTokenizer, functions: Iterable[Function | Synonyms]) -> None:
        self.clean = tokenizer.clean
        self.functions = [
            each.of_token if isinstance(each, Synonyms) else each
            for each in functions
            if not isinstance(each, Synonyms) or each.is_indexed
        ]

    def __missing__(self, token: str) -> tuple[str, ...]:
        if len(self) >= _REMEMBERED:
            self.clear()
        terms: str | tuple[str, ...] = self.clean(token)
        for apply in self.functions:
            if not terms:
                break
            if isinstance(terms, str):
                terms = apply(terms)
            else:
                terms = tuple(chain.from_iterable(_several(apply(term)) for term in terms))
        return self.setdefault(token, _several(terms))


def _several(tokens: str | tuple[str, ...]) -> tuple[str, ...]:
    return ((tokens,) if tokens else ()) if isinstance(tokens, str) else tokens


_PYTHON_TOKENIZERS: dict[str, PythonTokenizer] = {}


def has_tokenizer(text: str) -> bool:
    """Whether the tokenizer that the text of an analyzer names is here."""
    named = (Step.name_tokenizer(part) for part in _BAR.split(text))
    return all(name in _PYTHON_TOKENIZERS for name in named if name)


def _share_steps(steps: list[Step]) -> tuple[Step, ...]:
    """The steps, with the steps on text before ``language(…)`` that its analyzers share."""
    numbers = [number for number, step in enumerate(steps) if step.name == LANGUAGE]
    if not numbers:
        return tuple(steps)
    before, shared = steps[: numbers[0]], LanguageTokenizer(steps[numbers[0]].argument).text_steps
    if before and tuple(step.name for step in before) != shared:
        raise AnalyzerError(
            f"{LANGUAGE}: its analyzers have the steps on text {'|'.join(shared)}, leave out others"
        )
    return (*map(Step, shared), *steps[numbers[0] :])


def _open_tokenizer(step: Step) -> AnyTokenizer:
    if step.name == LANGUAGE:
        return LanguageTokenizer(step.argument)
    if step.name != PYTHON:
        return TOKENIZERS[step.name]
    if step.argument not in _PYTHON_TOKENIZERS:
        raise AnalyzerError(
            f"the tokenizer {step.argument} is not here: the program must name it first, by "
            f"tr.Analyzer.of({step.argument.partition(':')[2] or 'function'})"
        )
    return _PYTHON_TOKENIZERS[step.argument]


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
        for term in analyzer.terms(match.token):
            if terms is None or term in terms:
                start = match.start + _elided(analyzer, match.token, term)
                yield TermPlace(term, aligned.start(start), aligned.end(match.end))


def _elided(analyzer: Analyzer, token: str, term: str) -> int:
    """How many characters of a token an elision removes."""
    bare = token[token.rfind(TAG) + 1 :]
    ends = [i + 1 for i, character in enumerate(bare) if character in APOSTROPHES]
    return next((end for end in reversed(ends) if term in analyzer.terms(bare[end:])), 0)


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
