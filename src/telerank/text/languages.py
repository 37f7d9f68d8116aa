"""Texts of several languages in one index: each is analysed as its language wants it.

``language(fr=french, en=english)`` stands where a tokenizer does. It finds the tokens of the tokenizer that
its analyzers share, detects the language of the text (py3langid, whose model of 139 languages comes with it),
and makes terms of the tokens by the steps of that language. Terms have no mark of a language: statistics and
scores are of one collection, and a name is found whatever the language of its text is.

A query whose language is not sure, as is that of most single words, is analysed in every language, and a term
that several make counts once. With ``column=NAME`` the language of a document is what that column says; of
one without a value, or with another language, it is detected.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from telerank.errors import AnalyzerError, MissingExtra
from telerank.text.steps import LANGUAGE, TEXT_STEPS, Match

if TYPE_CHECKING:
    from telerank.text.analyzer import Analyzer

COLUMN = "column"
SURE = 0.9
"""Probability from which a query is analysed in its language alone: then 99 of 100 are right."""
_READ = 2_000  # characters of a text by which its language is detected
_MARK = "\ufdd0"  # around the language that a column says, before a text; no character
TAG = "\0"  # between the languages of a token, and the token
_GIVEN = re.compile(r"""\s*(\w+)\s*=\s*(?:'([^']*)'|"([^"]*)"|([^\s,'"]+))\s*(?:,|\Z)""")


@cache
def _detector(languages: tuple[str, ...]) -> tuple[Any, threading.Lock]:
    try:
        from py3langid import langid
    except ModuleNotFoundError as error:
        raise MissingExtra("py3langid", "languages") from error
    detector = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    try:
        detector.set_languages(list(languages))
    except ValueError as error:
        raise AnalyzerError(f"{LANGUAGE}: {error}".replace("Unknown", "unknown")) from None
    return detector, threading.Lock()


@dataclass(frozen=True)
class LanguageTokenizer:
    """Finds tokens, each with the language of its text before it, and makes terms of them.

    ``argument`` is ``fr=french, en=english, column=lang``, of which the column may be missing.

    Raises
    ------
    AnalyzerError
        If it is not, a language is unknown, or the analyzers differ in steps on text or tokenizers.
    """

    argument: str
    classes = None

    def __post_init__(self) -> None:
        self.analyzers  # noqa: B018 — what is wrong is told when an analyzer is made
        _detector(self.languages)

    @cached_property
    def given(self) -> Mapping[str, str]:
        """The texts of analyzers by language, and the column."""
        given: dict[str, str] = {}
        end = 0
        while end < len(self.argument):
            match = _GIVEN.match(self.argument, end)
            if match is None or match[1] in given:
                form = f"{LANGUAGE}(fr=french, en=english)"
                raise AnalyzerError(f"expected languages with analyzers, {form}, got {self.argument!r}")
            given[match[1]], end = next(each for each in match.groups()[1:] if each is not None), match.end()
        return given

    @property
    def column(self) -> str:
        """The column that says the language of a document; empty if it is detected."""
        return self.given.get(COLUMN, "")

    @cached_property
    def analyzers(self) -> Mapping[str, Analyzer]:
        """The analyzers by language."""
        from telerank.text.analyzer import Analyzer

        analyzers = {code: Analyzer.parse(text) for code, text in self.given.items() if code != COLUMN}
        if len(analyzers) < 2:
            raise AnalyzerError(f"{LANGUAGE}: expected two or more languages, got {self.argument!r}")
        for code, analyzer in analyzers.items():
            if analyzer.files or analyzer.classes is None:
                raise AnalyzerError(
                    f"{LANGUAGE}: {code}={analyzer}: steps with files stand behind {LANGUAGE}(…), and the "
                    "tokenizer is words or whitespace"
                )
        if len({_shared(analyzer) for analyzer in analyzers.values()}) > 1:
            raise AnalyzerError(
                f"{LANGUAGE}: the steps on text and the tokenizers must be the same: {self.argument}"
            )
        return analyzers

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages, in their order."""
        return tuple(self.analyzers)

    @cached_property
    def text_steps(self) -> tuple[str, ...]:
        """The steps on text that the analyzers share."""
        return _shared(self._first)[:-1]

    @property
    def _first(self) -> Analyzer:
        return next(iter(self.analyzers.values()))

    def detect(self, text: str) -> dict[str, float]:
        """The probability of each language, of a text without a mark; the likeliest first."""
        detector, lock = _detector(self.languages)
        with lock:
            return {code: round(float(share), 4) for code, share in detector.rank(text[:_READ])}

    def find(self, text: str) -> list[str]:
        """The tokens of a document, marked with its language."""
        _, code, bare = (
            text.split(_MARK, 2) if text.startswith(_MARK) and text.count(_MARK) > 1 else ("", "", text)
        )
        if code not in self.analyzers:
            code = next(iter(self.detect(bare)))
        return self._tag((code,), bare)

    def find_query(self, text: str) -> list[str]:
        """The tokens of a query, marked with its language, or with all if it is not sure."""
        code, share = next(iter(self.detect(text).items()))
        return self._tag((code,) if share >= SURE else self.languages, text)

    def variants(self, text: str) -> list[list[str]]:
        """The tokens of a text in each language."""
        return [self._tag((code,), text) for code in self.languages]

    def match(self, text: str) -> Iterator[Match]:
        """The tokens with their places, marked with all languages: a term of any is found."""
        tag = " ".join(self.languages)
        return (match._replace(token=f"{tag}{TAG}{match.token}") for match in self._first.matches(text))

    def clean(self, token: str) -> tuple[str, ...]:
        """The terms of a marked token; those of several languages once."""
        codes, _, bare = token.rpartition(TAG)
        terms = [self.analyzers[code].terms(bare) for code in codes.split() or self.languages]
        return terms[0] if len(terms) == 1 else tuple(dict.fromkeys(chain.from_iterable(terms)))

    def surfaces(self, text: str) -> list[str]:
        """The tokens of a text without a mark of their language."""
        return [match.token for match in self._first.matches(text)]

    def _tag(self, codes: Iterable[str], text: str) -> list[str]:
        tag = " ".join(codes)
        return [f"{tag}{TAG}{token}" for token in self.surfaces(text)]

    def mark(self, text: str, columns: Mapping[str, Any], whole: str = "") -> str:
        """A text with its language before it: what a column says, such as ``fr-CA``, or that of ``whole``."""
        code = str(columns.get(self.column, "")).casefold().partition("-")[0]
        code = code if code in self.analyzers or not whole else next(iter(self.detect(whole)))
        return f"{_MARK}{code}{_MARK}{text}" if code in self.analyzers else text

    @property
    def facts(self) -> list[str]:
        """What decides the terms besides the text form."""
        import importlib.metadata

        version = importlib.metadata.version("py3langid")
        return [version, *(analyzer.fingerprint() for analyzer in self.analyzers.values())]


def describe_languages(languages: Mapping[str, float]) -> str:
    """What is to be said of a query whose language is not sure; empty if nothing is."""
    if not languages or max(languages.values()) >= SURE:
        return ""
    shares = ", ".join(f"{code} {share:.2f}" for code, share in languages.items())
    return f"language not sure ({shares}): searched in each"


def _shared(analyzer: Analyzer) -> tuple[str, ...]:
    """The steps on text and the tokenizer."""
    steps = [step.name for step in analyzer.chain]
    return tuple(steps[: next(n for n, name in enumerate(steps) if name not in TEXT_STEPS) + 1])
