"""From the lines of a PDF file's pages to its paragraphs and headings.

The lines are in the order of the file. What repeats at the head or foot of pages stands once, at the head of
the first of them; page numbers are left out. Headings are those that bookmarks name, or those in larger or
bold letters. Lines of a paragraph are joined, across columns and pages, too.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from telerank.corpus.readers.files.text import (
    DIVISION,
    Paragraph,
    count_words,
    join_accents,
    join_divided,
    letters,
)

_EDGE = 3  # lines at the head and foot of a page that may repeat
_SHARE = 0.4  # of the pages that a line repeats on, and at least 2
_LARGER = 1.02  # than the body's size: a line whose number grows is a heading then
_NUMBER = re.compile(r"\d+")
_PAGE_WORDS = re.compile(r"\b(?:page|pages|p|sur|of|folio)\b", re.IGNORECASE)
_ENDS = tuple(".!?:;…»”")
_ITEM = re.compile(r"[•‣◦▪●○■–—*-]\s*\S|(?:\d{1,3}|[a-zA-Z])[.)]\s+\S")
_CLOSING = re.compile(r"[.,;:!?)\]…»]")
_SAME_LINE, _JUMP, _OTHER_SIZE, _INDENT, _COLUMN, _LETTER = 0.3, 0.5, 0.1, 0.8, 3.0, 0.5  # of the size
_GAP, _USUAL = 1.4, 1.25  # of the distance of lines, which is 1.25 times the size if nothing is known
_NOTE = 0.93  # of the body's size: smaller blocks at the foot of a page are notes
# Where a page begins within a paragraph.
_TURN = "\x03"


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


def lay_out(
    pages: Mapping[int, Sequence[Line]], bookmarks: Sequence[Bookmark], title: str
) -> tuple[str, list[Paragraph], int]:
    """The title, the paragraphs, and the number of repeated lines that were left out.

    ``pages`` has the lines of each page by its number. An empty ``title`` is looked for on the first page.
    """
    rest, repeated, left_out = split_repeated(pages)
    body = body_size(rest)
    titles: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for bookmark in bookmarks:
        if key := letters(bookmark.title):
            titles[bookmark.page].append((key, bookmark.level))
    blocks = _join_continued(
        [block for page, lines in rest.items() for block in _read_blocks(page, lines, titles[page])], body
    )
    levels = find_headings(blocks, body)
    heads = [(TextBlock(((page, line),)), 0) for page, line in repeated]
    ordered = sorted((*heads, *zip(blocks, levels, strict=True)), key=lambda block: block[0].lines[0][0])
    texts = join_accents([_join_lines(block, rest) for block, _ in ordered])
    words = count_words(texts)
    paragraphs = [
        _paragraph(join_divided(text, words), level, block)
        for text, (block, level) in zip(texts, ordered, strict=True)
    ]
    return title or join_divided(find_title(blocks, body), words), paragraphs, left_out


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
    for column in zip(*([int(n) for n in _NUMBER.findall(line.text)] for _, line in lines), strict=True):
        if len(set(column)) == 1:
            continue
        shifts = {n - page for n, (page, _) in zip(column, lines, strict=True)}
        if len(shifts) > 1 or any(line.is_bold or line.size > _LARGER * body for _, line in lines):
            return False
    return True


def _read_blocks(
    page: int, lines: Sequence[Line], bookmarks: Sequence[tuple[str, int]]
) -> Iterator[TextBlock]:
    """The blocks of a page: headings that bookmarks name, and lines without a break between them."""
    # The usual distance of base lines, in sizes.
    gaps = [
        (before.bottom - line.top) / line.size
        for before, line in pairwise(lines)
        if line.size and _SAME_LINE < (before.bottom - line.top) / line.size < _COLUMN
    ]
    distance = median(gaps) if gaps else _USUAL
    held: list[Line] = []
    number = 0
    while number < len(lines):
        count, level = _match_bookmark(bookmarks, lines[number : number + _HEADING_LINES])
        if held and (count or _is_break(held, lines[number], distance)):
            yield TextBlock(tuple((page, line) for line in held))
            held = []
        if count:
            yield TextBlock(tuple((page, line) for line in lines[number : number + count]), level)
        else:
            held.append(lines[number])
        number += max(count, 1)
    if held:
        yield TextBlock(tuple((page, line) for line in held))


def _is_break(held: Sequence[Line], line: Line, distance: float) -> bool:
    """Whether a line begins a block of its own."""
    before, size = held[-1], max(line.size, 1e-6)
    gap = (before.bottom - line.top) / size
    if abs(gap) < _SAME_LINE:
        return False
    if abs(line.size - before.size) > _OTHER_SIZE * max(line.size, before.size):
        return True
    if gap < -_JUMP or gap > _GAP * distance:
        return True
    if line.is_bold != before.is_bold and all(own.is_bold == before.is_bold for own in held):
        return True
    indent = (line.left - min(own.left for own in held)) / size
    return before.text.endswith(_ENDS) and _INDENT < indent < _COLUMN and not _ITEM.match(line.text)


def _join_continued(blocks: Sequence[TextBlock], body: float) -> list[TextBlock]:
    """The blocks, with those joined that a column, a page or notes at its foot interrupt."""
    joined: list[TextBlock] = []
    for block in blocks:
        number = len(joined) - 1
        while number >= 0 and joined[number].size < _NOTE * body <= block.size:
            number -= 1
        if number >= 0 and _continues(joined[number], block):
            joined[number] = TextBlock((*joined[number].lines, *block.lines))
        else:
            joined.append(block)
    return joined


def _continues(before: TextBlock, block: TextBlock) -> bool:
    (page, last), (following, first) = before.lines[-1], block.lines[0]
    return (
        not before.level
        and not block.level
        and (following == page + 1 or (following == page and first.top > last.bottom))
        and abs(first.size - last.size) <= _OTHER_SIZE * last.size
        and first.is_bold == last.is_bold
        and first.text[:1].islower()
        and not last.text.endswith(_ENDS)
        and not _ITEM.match(first.text)
    )


def _join_lines(block: TextBlock, pages: Mapping[int, Sequence[Line]]) -> str:
    """The text of a block, with :data:`_TURN` where a page begins; line ends stay where they are meant."""
    text = block.lines[0][1].text
    for (page, before), (following, line) in pairwise(block.lines):
        turn = _TURN if page != following else ""
        if before.text.endswith(("-", DIVISION)) and line.text[:1].islower():
            word, blank, rest = line.text.partition(" ")  # a divided word stands on the page of its beginning
            text = f"{text[:-1]}{DIVISION}{word}{blank}{turn}{rest}"
        elif turn or line.top > before.bottom + _JUMP * line.size:
            text = f"{text} {turn}{line.text}"
        elif abs(before.bottom - line.top) < _SAME_LINE * line.size:
            text += line.text if _CLOSING.match(line.text) else f" {line.text}"
        elif _ITEM.match(line.text) or _has_room(before, line, pages[page]):
            text = f"{text}\n{line.text}"
        else:
            text = f"{text} {line.text}"
    return text


def _has_room(line: Line, after: Line, lines: Sequence[Line]) -> bool:
    """Whether the next line's first word would fit on a line: then it ends on purpose."""
    column = [
        other.right
        for other in lines
        if abs(other.left - line.left) < _COLUMN * line.size
        and abs(other.size - line.size) <= _OTHER_SIZE * line.size
    ]
    room = max(column, default=line.right) - line.right
    return room > _LETTER * line.size * (len(after.text.partition(" ")[0]) + 1)


def _paragraph(text: str, level: int, block: TextBlock) -> Paragraph:
    """The paragraph of a text, without the marks where pages begin."""
    numbers = [page for page, _ in block.lines]
    turns = [numbers[0], *(after for before, after in pairwise(numbers) if before != after)]
    pieces = text.split(_TURN)
    starts = [sum(map(len, pieces[:n])) for n in range(len(pieces))]
    return Paragraph("".join(pieces), level, tuple(zip(starts, turns, strict=False)))


_HEADING_LINES = 3  # of a heading
_LONGEST_HEADING = 200  # characters
_LARGER_HEADING = 1.1  # than the body's size
_NUMBERING = 8  # characters before a heading that its bookmark lacks: 2.1.3, IV.
_NUMBERED = re.compile(r"\d*[a-z]?|[ivxlc]+|\d[\divxlca-z]*")  # in digits, letters or Roman
_WORD = re.compile(r"[^\W\d_]{2}")
_TEXT_ENDS = tuple(".,;:")


class Bookmark(NamedTuple):
    """A bookmark: ``level`` and ``page`` count from 1."""

    title: str
    level: int
    page: int


def _match_bookmark(bookmarks: Sequence[tuple[str, int]], lines: Sequence[Line]) -> tuple[int, int]:
    """How many of the lines, from the first on, a bookmark names, and its level; (0, 0): none does.

    ``bookmarks`` are the letters of the titles on this page, with their levels.
    """
    for count in range(1, min(_HEADING_LINES, len(lines)) + 1) if bookmarks else ():
        text = "".join(line.text for line in lines[:count])
        key = letters(text) if len(text) <= _LONGEST_HEADING + _NUMBERING else ""
        for title, level in bookmarks:
            before = len(key) - len(title)
            if key.endswith(title) and before <= _NUMBERING and _NUMBERED.fullmatch(key, 0, before):
                return count, level
    return 0, 0


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
    return block.size > _LARGER_HEADING * body and _is_short(block)


def _is_bold(block: TextBlock) -> bool:
    return block.is_bold and _is_short(block) and not block.text.endswith(_TEXT_ENDS)


def _is_short(block: TextBlock) -> bool:
    text = block.text
    return (
        len(block.lines) <= _HEADING_LINES
        and len(text) <= _LONGEST_HEADING
        and _WORD.search(text) is not None
    )
