"""Tokenizers: fast patterns that find surface tokens, and functions that clean them.

Patterns may include too much (invisible characters, leading underscores): ``clean`` removes it, once for each
distinct token instead of for each occurrence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

LONGEST = 255  # characters of a run; longer ones are split, as in Lucene

APOSTROPHES = "'’‘‛′"  # typewriter, typographic, wrongly typographic, reversed, prime
_MODIFIER = "ʼ"  # the apostrophe that Unicode counts as a letter
_INVISIBLE = (
    "\xad\u200c\u200d\u200e\u200f\u2060\ufeff"  # soft hyphen, joiners, direction marks, word joiner, BOM
)
_BLOCKS = (range(0x300, 0x3100), range(0xA66F, 0xAC00), range(0xFE00, 0xFE30))
_MARKS = "".join([mark for mark in map(chr, chain(*_BLOCKS)) if unicodedata.category(mark)[0] == "M"])
"""Combining marks outside the ideographic blocks; ``\\w`` leaves them out."""
_STARTS = [mark for mark, before in zip(_MARKS, f" {_MARKS}", strict=False) if ord(mark) != ord(before) + 1]
_ENDS = [mark for mark, after in zip(_MARKS, f"{_MARKS[1:]} ", strict=True) if ord(after) != ord(mark) + 1]
_RANGES = "".join(f"{start}-{end}" for start, end in zip(_STARTS, _ENDS, strict=True))  # compiled faster
_WORD = f"a-z0-9{_INVISIBLE}{_RANGES}\\w"  # ASCII first: the engine then tests one bit
_LETTER = r"[^\W\d_]"
_DIGITS_GO_ON = r"(?<=\d[.,])(?=\d)"
_ACRONYM_GOES_ON = rf"(?<=(?<![{_WORD}]){_LETTER}\.)(?={_LETTER}(?![{_WORD}]))"
_LETTERS_GO_ON = rf"(?<![\d_][{APOSTROPHES}])(?<=[{APOSTROPHES}])(?={_LETTER})"
_JOINED = rf"[.,{APOSTROPHES}](?:{_LETTERS_GO_ON}|{_DIGITS_GO_ON}|{_ACRONYM_GOES_ON})"
_WORDS = rf"[{_WORD}]{{1,{LONGEST}}}+(?:{_JOINED}[{_WORD}]{{1,63}}+){{0,15}}+"

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
"""``words``
    Runs of letters, digits, combining marks and underscores. Apostrophes between letters belong to the word,
    and decimal and thousands signs to the number (``3,14``, ``10.000``); acronyms lose their stops
    (``U.S.A.`` becomes ``USA``). Typographic apostrophes become ``'``; underscores at either end and
    invisible characters (soft hyphen, joiners) are removed. All else separates tokens, hyphens included.
``whitespace``
    Runs of characters other than blanks and NUL; a lone surrogate becomes U+FFFD.
"""
