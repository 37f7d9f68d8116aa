"""Lines of PDF files: their sizes, which of them repeat, divided words, and accents beside letters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_EDGE = 3  # lines at the head and foot of a page that may repeat
_SHARE = 0.4  # of the pages that a line repeats on, and at least 2
_LARGER = 1.02  # than the body's size: a line whose number grows is a heading then
_NUMBER = re.compile(r"\d+")
_PAGE_WORDS = re.compile(r"\b(?:page|pages|p|sur|of|folio)\b", re.IGNORECASE)


class Line(NamedTuple):
    """A line, or several that PDFium joined where words are divided.

    ``left`` and ``right`` are those of its first and last character, ``top`` and ``bottom`` the base lines of
    its first and last line, in points; ``top`` grows upwards. ``size`` is that of its letters.
    """

    text: str
    left: float
    right: float
    top: float
    bottom: float
    size: float
    is_bold: bool


@dataclass(frozen=True)
class TextBlock:
    """Lines that belong together, each with its page; ``level`` is that of a bookmark's heading."""

    lines: tuple[tuple[int, Line], ...]
    level: int = 0

    @property
    def size(self) -> float:
        return self.lines[0][1].size

    @property
    def is_bold(self) -> bool:
        return all(line.is_bold for _, line in self.lines)

    @property
    def text(self) -> str:
        """The lines, with blanks between them."""
        return " ".join(line.text for _, line in self.lines)


def body_size(pages: Mapping[int, Sequence[Line]]) -> float:
    """The size of most letters, to half a point; 0 without lines."""
    sizes: Counter[float] = Counter()
    for lines in pages.values():
        for line in lines:
            sizes[round(2 * line.size) / 2] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def split_repeated(
    pages: Mapping[int, Sequence[Line]],
) -> tuple[dict[int, list[Line]], list[tuple[int, Line]], int]:
    """Split off the lines that repeat at the head or foot of pages.

    Returns the other lines of each page, the first of each repeated line with its page, and how many others
    are left out. A line repeats if it stands at the same height and differs in nothing but numbers, which are
    equal on all pages or grow with them; lines of page numbers alone are left out on all pages.
    """
    body = body_size(pages)
    groups: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for page, lines in pages.items():
        for number in _at_edges(lines):
            line = lines[number]
            groups[_NUMBER.sub("#", line.text), round(line.top)].append((page, number))
    removed: dict[int, set[int]] = defaultdict(set)
    first: list[tuple[int, Line]] = []
    for (text, _), group in groups.items():
        own = [(page, pages[page][number]) for page, number in group]
        if len({page for page, _ in group}) < max(2, _SHARE * len(pages)) or not _repeats(own, body):
            continue
        for page, number in group:
            removed[page].add(number)
        if re.search(r"[^\W\d_]", _PAGE_WORDS.sub("", text)):
            first.append(own[0])
    rest = {
        page: [line for number, line in enumerate(lines) if number not in removed[page]]
        for page, lines in pages.items()
    }
    return rest, sorted(first, key=lambda line: line[0]), sum(map(len, removed.values())) - len(first)


def _at_edges(lines: Sequence[Line]) -> list[int]:
    """The numbers of the highest and the lowest lines of a page, in the order of the file."""
    by_height = sorted(range(len(lines)), key=lambda number: -lines[number].top)
    return sorted({*by_height[:_EDGE], *by_height[-_EDGE:]})


def _repeats(lines: Sequence[tuple[int, Line]], body: float) -> bool:
    """Whether the numbers of lines that are equal otherwise are constant, or those of their pages."""
    columns = zip(*([int(n) for n in _NUMBER.findall(line.text)] for _, line in lines), strict=True)
    for column in columns:
        if len(set(column)) == 1:
            continue
        shifts = {n - page for n, (page, _) in zip(column, lines, strict=True)}
        if len(shifts) > 1 or any(line.is_bold or line.size > _LARGER * body for _, line in lines):
            return False
    return True


# What stands in a text where a line ends with a hyphen and the word continues.
DIVISION = "\x02"
_DIVIDED = re.compile(rf"(?<![\w-])([\w-]*+){DIVISION}\s*([\w-]*)")
_WORDS = re.compile(r"\w[\w-]*\w")
_AFTER_NAMES = """
    je tu il elle on nous vous ils elles moi toi lui leur ce y en ci là même mêmes dessus dessous delà
"""
# French words that a hyphen joins to the word before: viendrez-vous, ceux-ci, au-dessus.
_AFTER = frozenset(_AFTER_NAMES.split())
# Those that a hyphen joins to the word after: ci-joint, peut-être.
_BEFORE = frozenset(["ci", "celui", "celle", "ceux", "celles", "peut", "rendez"])
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
