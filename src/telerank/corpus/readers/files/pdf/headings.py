"""Which blocks of a PDF file are headings: those that bookmarks name, or those in larger or bold letters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from telerank.corpus.readers.files.pdf.lines import Line, TextBlock

_LINES = 3  # of a heading
_LONGEST = 200  # characters
_LARGER = 1.1  # than the body's size
_NUMBERING = 8  # characters before a heading that its bookmark lacks: 2.1.3, IV.
_NOT_WORDS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W\d_]{2}")
_TEXT_ENDS = tuple(".,;:")


class Bookmark(NamedTuple):
    """A bookmark: ``level`` and ``page`` count from 1."""

    title: str
    level: int
    page: int


class BookmarkFinder:
    """Finds the headings that bookmarks name among the lines of their pages."""

    def __init__(self, bookmarks: Sequence[Bookmark]) -> None:
        self._by_page: Mapping[int, list[tuple[str, int]]] = defaultdict(list)
        for bookmark in bookmarks:
            if key := _key(bookmark.title):
                self._by_page[bookmark.page].append((key, bookmark.level))

    def match(self, page: int, lines: Sequence[Line]) -> tuple[int, int]:
        """How many of the lines, from the first on, a bookmark names, and its level; (0, 0): none does."""
        own = self._by_page.get(page)
        for count in range(1, min(_LINES, len(lines)) + 1) if own else ():
            text = "".join(line.text for line in lines[:count])
            key = _key(text) if len(text) <= _LONGEST + _NUMBERING else ""
            for title, level in own or ():
                if key.endswith(title) and len(key) - len(title) <= _NUMBERING and _numbers(key, title):
                    return count, level
        return 0, 0


def _key(text: str) -> str:
    return _NOT_WORDS.sub("", text).casefold()


def _numbers(key: str, title: str) -> bool:
    """Whether what stands before the bookmark's title is a number, in digits, letters or Roman."""
    return re.fullmatch(r"\d*[a-z]?|[ivxlc]+|\d[\divxlca-z]*", key[: len(key) - len(title)]) is not None


def find_title(blocks: Sequence[TextBlock], body: float) -> str:
    """The text in the largest letters of the first page, if they are larger than the body's."""
    page = min((block.lines[0][0] for block in blocks), default=0)
    larger = [block for block in blocks if block.lines[0][0] == page and _is_large(block, body)]
    largest = max(larger, key=lambda block: block.size, default=None)
    return "" if largest is None else largest.text


def find_headings(blocks: Sequence[TextBlock], body: float) -> list[int]:
    """The level of each block, 0 for text.

    Without bookmarks a larger block is a heading, the largest of level 1; a bold one, too, if but one block
    of the file, its title, is larger.
    """
    if any(block.level for block in blocks):
        return [block.level for block in blocks]
    large = [_is_large(block, body) for block in blocks]
    sizes = sorted({round(block.size) for block, own in zip(blocks, large, strict=True) if own}, reverse=True)
    levels = [
        sizes.index(round(block.size)) + 1 if own else 0 for block, own in zip(blocks, large, strict=True)
    ]
    if sum(large) > 1:
        return [min(level, 9) for level in levels]
    return [level or (len(sizes) + 1) * _is_bold(block) for block, level in zip(blocks, levels, strict=True)]


def _is_large(block: TextBlock, body: float) -> bool:
    return block.size > _LARGER * body and _is_short(block)


def _is_bold(block: TextBlock) -> bool:
    return block.is_bold and _is_short(block) and not block.text.endswith(_TEXT_ENDS)


def _is_short(block: TextBlock) -> bool:
    text = block.text
    return len(block.lines) <= _LINES and len(text) <= _LONGEST and _WORD.search(text) is not None
