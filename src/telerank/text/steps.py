"""The steps of analyzers: a name and, for some steps, an argument.

A tokenizer is a fast pattern that finds surface tokens, and a function that cleans them. The pattern may
include too much (invisible characters, leading underscores): ``clean`` removes it, once for each distinct
token instead of for each occurrence.

``words``
    Runs of letters, digits, combining marks and underscores. Apostrophes between letters belong to the word,
    and decimal and thousands signs to the number (``3,14``, ``10.000``); acronyms lose their stops
    (``U.S.A.`` becomes ``USA``). Typographic apostrophes become ``'``; underscores at either end and
    invisible characters (soft hyphen, joiners) are removed. All else separates tokens, hyphens included.
``whitespace``
    Runs of characters other than blanks and NUL; a lone surrogate becomes U+FFFD.

Steps on one token, which return "" to drop it.

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

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import Stemmer

from telerank.errors import AnalyzerError

LONGEST = 255  # characters of a run; longer ones are split, as in Lucene

APOSTROPHES = "'’‘‛′"  # typewriter, typographic, wrongly typographic, reversed, prime
_MODIFIER = "ʼ"  # the apostrophe that Unicode counts as a letter
_INVISIBLE = (
    "\xad\u200c\u200d\u200e\u200f\u2060\ufeff"  # soft hyphen, joiners, direction marks, word joiner, BOM
)
_BLOCKS = (range(0x300, 0x3100), range(0xA66F, 0xAC00), range(0xFE00, 0xFE30))
# Combining marks outside the ideographic blocks; \w leaves them out.
_MARKS = "".join([mark for mark in map(chr, chain(*_BLOCKS)) if unicodedata.category(mark)[0] == "M"])
_STARTS = [mark for mark, before in zip(_MARKS, f" {_MARKS}", strict=False) if ord(mark) != ord(before) + 1]
_ENDS = [mark for mark, after in zip(_MARKS, f"{_MARKS[1:]} ", strict=True) if ord(after) != ord(mark) + 1]
_RANGES = "".join(f"{start}-{end}" for start, end in zip(_STARTS, _ENDS, strict=True))  # compiled faster
_IN_WORD = f"a-z0-9{_INVISIBLE}{_RANGES}\\w"  # ASCII first: the engine then tests one bit
_LETTER = r"[^\W\d_]"
_DIGITS_GO_ON = r"(?<=\d[.,])(?=\d)"
_ACRONYM_GOES_ON = rf"(?<=(?<![{_IN_WORD}]){_LETTER}\.)(?={_LETTER}(?![{_IN_WORD}]))"
_LETTERS_GO_ON = rf"(?<![\d_][{APOSTROPHES}])(?<=[{APOSTROPHES}])(?={_LETTER})"
_JOINED = rf"[.,{APOSTROPHES}](?:{_LETTERS_GO_ON}|{_DIGITS_GO_ON}|{_ACRONYM_GOES_ON})"
_WORDS = rf"[{_IN_WORD}]{{1,{LONGEST}}}+(?:{_JOINED}[{_IN_WORD}]{{1,63}}+){{0,15}}+"

SEPARATES, BELONGS, JOINS = 0, 1, 2

_TIDY = str.maketrans(dict.fromkeys(APOSTROPHES + _MODIFIER, "'") | dict.fromkeys(_INVISIBLE, None))


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """``pattern`` matches the surface tokens of a text, ``clean`` returns the token of one ("" for none).

    ``classes`` says for each byte of UTF-8 whether texts may be cut there to be analysed in parts
    (:data:`SEPARATES`), not at all (:data:`BELONGS`), or unless it is between two bytes that belong
    (:data:`JOINS`).
    """

    pattern: re.Pattern[str]
    clean: Callable[[str], str]
    classes: bytes


def _clean_word(token: str) -> str:
    token = token.translate(_TIDY).lstrip("'_" + _MARKS).rstrip("'_")
    if token[1:2] == "." and token[0].isalpha():  # u.s.a
        return token.replace(".", "")
    return token


def _class_of(byte: int) -> int:
    """The class of a byte for ``words``; bytes that are not ASCII are left to the pattern."""
    character = chr(byte)
    if byte >= 0x80 or character.isalnum() or character == "_":
        return BELONGS
    return JOINS if character in ".,'" else SEPARATES


TOKENIZERS: Mapping[str, Tokenizer] = {
    "words": Tokenizer(re.compile(_WORDS), _clean_word, bytes(map(_class_of, range(256)))),
    "whitespace": Tokenizer(
        re.compile(rf"[^\s\0]{{1,{LONGEST}}}"),
        partial(re.compile("[\ud800-\udfff]").sub, "\ufffd"),
        bytes(
            SEPARATES if byte == 0 or (byte < 0x80 and chr(byte).isspace()) else BELONGS
            for byte in range(256)
        ),
    ),
}


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
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", token))).translate(
        _TO_ASCII
    )


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

# Steps on a whole text: Unicode normal forms, and full case folding (ß becomes ss).
#
# nfkc replaces ™ and ℠ by blanks, since their letters would become part of the word before.
TEXT_STEPS: Mapping[str, Function] = {
    "nfc": partial(unicodedata.normalize, "NFC"),
    "nfkc": _nfkc,
    "casefold": str.casefold,
}

TOKEN_STEPS: Mapping[str, TokenStep] = {
    "elision": TokenStep(lambda _: _elide, lambda: ("french",)),
    "possessive": TokenStep(lambda _: lambda token: token[:-2] if token[-2:] in ("'s", "'S") else token),
    "ligatures": TokenStep(lambda _: lambda token: token.translate(_LIGATURES)),
    "stop": TokenStep(_stop, lambda: ("english", "french")),
    "snowball": TokenStep(_snowball, lambda: tuple(Stemmer.algorithms())),
    "asciifold": TokenStep(lambda _: fold_accents),
}
