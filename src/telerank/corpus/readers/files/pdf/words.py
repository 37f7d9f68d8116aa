"""Words of PDF files: those divided at line ends, and those whose accents stand beside letters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

DIVISION = "\x02"
"""What stands in a text where a line ends with a hyphen and the word continues."""
_DIVIDED = re.compile(rf"(?<![\w-])([\w-]*+){DIVISION}\s*([\w-]*)")
_WORDS = re.compile(r"\w[\w-]*\w")
_AFTER_NAMES = """
    je tu il elle on nous vous ils elles moi toi lui leur ce y en ci là même mêmes dessus dessous delà
"""
_AFTER = frozenset(_AFTER_NAMES.split())
"""French words that a hyphen joins to the word before: ``viendrez-vous``, ``ceux-ci``, ``au-dessus``."""
_BEFORE = frozenset(["ci", "celui", "celle", "ceux", "celles", "peut", "rendez"])
"""Those that a hyphen joins to the word after: ``ci-joint``, ``peut-être``."""
_ACCENTS = {"´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "¨": "\u0308", "¸": "\u0327", "˜": "\u0303"}
_BESIDE = re.compile("([´`ˆ¨¸˜])([A-Za-zı])")
_ONLY_BESIDE = re.compile("[´ˆ¨¸][A-Za-zı]")


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in the texts, those that are divided left out."""
    words: Counter[str] = Counter()
    for text in texts:
        words.update(_WORDS.findall(_DIVIDED.sub(" ", text).casefold()))
    return words


def join_divided(text: str, words: Counter[str]) -> str:
    """The text with each divided word joined, with a hyphen if the word has one.

    The spelling that is more frequent among ``words``, the rest of the file, is chosen. If it has neither,
    a word keeps the hyphen if a syllable cannot end there, or the parts are those of a compound.
    """
    return _DIVIDED.sub(lambda match: _join(match[1], match[2], words), text)


def _join(before: str, after: str, words: Counter[str]) -> str:
    joined, hyphenated = f"{before}{after}", f"{before}-{after}"
    plain, with_hyphen = (words[word.casefold()] for word in (joined, hyphenated))
    if plain != with_hyphen:
        return joined if plain > with_hyphen else hyphenated
    return hyphenated if _is_compound(before, after) else joined


def _is_compound(before: str, after: str) -> bool:
    first, last = before.rpartition("-")[2], after.partition("-")[0]
    return (
        min(len(first), len(last)) < 2
        or not (first[-1].islower() and last[0].islower())
        or "-" in before
        or last.casefold() in _AFTER
        or first.casefold() in _BEFORE
    )


def join_accents(texts: list[str]) -> list[str]:
    """The texts with letters for accents beside letters (``´e``), which files of old TeX fonts have."""
    if not any(_ONLY_BESIDE.search(text) for text in texts):  # a grave accent alone may be a quotation mark
        return texts
    return [_BESIDE.sub(_compose, text) for text in texts]


def _compose(match: re.Match[str]) -> str:
    letter = "i" if match[2] == "ı" else match[2]
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[match[1]])
    return composed if len(composed) == 1 else match[0]
