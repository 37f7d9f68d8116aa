"""The steps of analyzers: a name and, for some steps, an argument."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

import Stemmer

from telerank.errors import AnalyzerError
from telerank.text.tokenizers import TOKENIZERS

Function: TypeAlias = Callable[[str], str]

_WRITTEN = re.compile(r"([a-z]+)(?:\(([a-z_]+)\))?")


@dataclass(frozen=True, slots=True)
class Step:
    """A step; its text form is ``name`` or ``name(argument)``. If either is unknown: AnalyzerError."""

    name: str
    argument: str = ""

    def __post_init__(self) -> None:
        if self.name in TOKENIZERS or self.name in TEXT_STEPS:
            known: tuple[str, ...] = ()
        elif self.name in TOKEN_STEPS:
            known = TOKEN_STEPS[self.name].arguments()
        else:
            names = ", ".join((*TEXT_STEPS, *TOKENIZERS, *TOKEN_STEPS))
            raise AnalyzerError(f"unknown step {self.name!r}; known: {names}")
        if known and self.argument not in known:
            raise AnalyzerError(
                f"step {self.name!r} needs one of ({', '.join(known)}), got {self.argument!r}"
            )
        if self.argument and not known:
            raise AnalyzerError(f"step {self.name!r} takes no argument, got {self.argument!r}")

    @classmethod
    def parse(cls, text: str) -> Step:
        """Read the text form of a known step."""
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise AnalyzerError(f"expected a step such as casefold or stop(french), got {text!r}")
        return cls(match[1], match[2] or "")

    def __str__(self) -> str:
        return f"{self.name}({self.argument})" if self.argument else self.name


@dataclass(frozen=True, slots=True)
class TokenStep:
    """Makes the function of a token step from its argument; ``arguments`` lists those known, if any."""

    make: Callable[[str], Function]
    arguments: Callable[[], tuple[str, ...]] = tuple


@cache
def stop_words(name: str) -> frozenset[str]:
    """Lucene's list of stop words; the first lines of the file give source and licence."""
    text = (Path(__file__).parent / "stopwords" / f"{name}.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("™", " ").replace("℠", " "))


def _elide(token: str) -> str:
    head, apostrophe, rest = token.partition("'")
    return rest.lstrip("'") if apostrophe and head.casefold() in _ELIDED else token


def _stop(name: str) -> Function:
    words = stop_words(name)
    return lambda token: "" if token in words else token


def _snowball(algorithm: str) -> Function:
    local = threading.local()  # a Stemmer must not be shared between threads

    def stem(token: str) -> str:
        if not hasattr(local, "stem"):
            local.stem = Stemmer.Stemmer(algorithm, 0).stemWord
        return str(local.stem(token))

    return stem


def fold_accents(token: str) -> str:
    """A token with Latin letters without their accents, and ligatures as two letters."""
    if token.isascii():
        return token
    if _LATIN.fullmatch(token):  # character by character, which is faster
        return token.translate(_BARE)
    return _fold(token)


def _fold(token: str) -> str:
    bare = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", token))
    return unicodedata.normalize("NFC", bare).translate(_TO_ASCII)


# as in Lucene's FrenchAnalyzer
_ELIDED = frozenset(["l", "m", "t", "qu", "n", "s", "j", "d", "c", "jusqu", "quoiqu", "lorsqu", "puisqu"])
_LIGATURES = str.maketrans({"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae"})
_TO_ASCII = _LIGATURES | str.maketrans(
    {"ß": "ss", "ẞ": "Ss", "þ": "th", "Þ": "Th"}
    | dict(zip("øđðħıłŋŧſØĐÐĦŁŊŦ", "oddhilntsODDHLNT", strict=True))
)
_ACCENTED = re.compile("([A-Za-z" + "".join(map(chr, _TO_ASCII)) + "])[\u0300-\u036f]+")
_LATIN = re.compile("[\0-\u024f\u1e00-\u1eff]*")  # without combining marks


class _BareCharacters(dict[int, str]):
    """Characters without their accents by code point, computed when first needed."""

    def __missing__(self, code: int) -> str:
        bare = self[code] = _fold(chr(code))
        return bare


_BARE = _BareCharacters()

TEXT_STEPS: Mapping[str, Function] = {
    "nfc": partial(unicodedata.normalize, "NFC"),
    "nfkc": _nfkc,
    "casefold": str.casefold,
}
"""Steps on a whole text: Unicode normal forms, and full case folding (ß becomes ss).

``nfkc`` replaces ™ and ℠ by blanks, since their letters would become part of the word before.
"""

TOKEN_STEPS: Mapping[str, TokenStep] = {
    "elision": TokenStep(lambda _: _elide, lambda: ("french",)),
    "possessive": TokenStep(lambda _: lambda token: token[:-2] if token[-2:] in ("'s", "'S") else token),
    "ligatures": TokenStep(lambda _: lambda token: token.translate(_LIGATURES)),
    "stop": TokenStep(_stop, lambda: ("english", "french")),
    "snowball": TokenStep(_snowball, lambda: tuple(Stemmer.algorithms())),
    "asciifold": TokenStep(lambda _: fold_accents),
}
"""Steps on one token, which return "" to drop it.

``elision(french)``
    Removes l' m' t' qu' n' s' j' d' c' jusqu' quoiqu' lorsqu' puisqu': l'État becomes État. Other words
    with an apostrophe (aujourd'hui, prud'hommes, quelqu'un, presqu'île, entr'ouvert) stay whole.
``possessive``
    Removes the English 's at the end of a token.
``ligatures``
    Replaces œ by oe and æ by ae, as most people type them.
``stop(list)``, ``snowball(algorithm)``
    Drops the words of a list; stems (PyStemmer).
``asciifold``
    Removes the accents of Latin letters, and spells out the few letters without a base (ß, ø, þ). It should
    be last, since stop lists and stemmers need accents.
"""
