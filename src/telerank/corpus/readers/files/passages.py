"""Cutting the text of a file into passages, between paragraphs and sentences, and at headings."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from telerank.corpus.readers.files.text import FilePart, FileText
from telerank.text.sentences import split_sentences
from telerank.text.steps import stop_words
from telerank.types import Mark

PASSAGE_WORDS = 200
"""Words of a passage at most: with a question, they fit into the 512 tokens that most models read."""
BELOW = " › "
"""What stands between a heading and one below it."""
_WORD = re.compile(r"\S+")
_LANGUAGES = {"en": "english", "fr": "french"}
_LOOKED_AT = 20_000  # characters whose words tell the language


class FilePassage(NamedTuple):
    """A passage of a file, or all of it; ``marks`` are those of its own text."""

    title: str
    text: str
    marks: tuple[Mark, ...]


class _Heading(NamedTuple):
    """Where a heading begins, those above it, and these with itself."""

    start: int
    above: tuple[str, ...]
    path: tuple[str, ...]


class _Unit(NamedTuple):
    """What is never cut: a paragraph, a heading, or a sentence of a long paragraph.

    ``begins`` is set if a section or a page begins with it.
    """

    start: int
    end: int
    words: int
    is_heading: bool = False
    begins: bool = False


def cut_passages(file: FileText, words: int | None = PASSAGE_WORDS) -> list[FilePassage]:
    """The passages of a file, each of at most ``words`` words; None leaves it whole.

    A file that is no longer is one passage with every character of its text. A passage ends before a heading
    or a page once it has half of the words, and never with a heading if the text below it fits. Its title is
    that of the file and the headings above its beginning.
    """
    headings = list(_read_headings(file))
    marks = _mark(headings, file.pages)
    if words is None or _count(file.text) <= words:
        return [FilePassage(file.title, file.text, marks)]
    return [
        FilePassage(_title(file.title, headings, start), file.text[start:end], _cut_marks(marks, start, end))
        for start, end in _group(_units(file, words), words)
    ]


def _read_headings(file: FileText) -> Iterator[_Heading]:
    path: list[FilePart] = []
    for part in file.parts:
        if part.level:
            path = [outer for outer in path if outer.level < part.level]
            above = tuple(_line(file, outer) for outer in path)
            path.append(part)
            yield _Heading(part.start, above, (*above, _line(file, part)))


def _line(file: FileText, part: FilePart) -> str:
    return " ".join(file.text[part.start : part.end].split())


def _mark(headings: Sequence[_Heading], pages: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
    """A mark wherever the page or the heading changes."""
    paths, numbers = {heading.start: BELOW.join(heading.path) for heading in headings}, dict(pages)
    marks: list[Mark] = []
    page, path = 0, ""
    for start in sorted({*paths, *numbers}):
        page, path = numbers.get(start, page), paths.get(start, path)
        if not marks or marks[-1][1:] != (page, path):
            marks.append(Mark(start, page, path))
    return tuple(marks)


def _cut_marks(marks: Sequence[Mark], start: int, end: int) -> tuple[Mark, ...]:
    """The marks of the characters ``start`` to ``end``, as those of a text of their own."""
    first = bisect_right(marks, start, key=attrgetter("start")) - 1
    last = bisect_left(marks, end, key=attrgetter("start"))
    return tuple(Mark(max(mark.start - start, 0), *mark[1:]) for mark in marks[max(first, 0) : last])


def _title(title: str, headings: Sequence[_Heading], start: int) -> str:
    """The title of a passage: the file's, and the headings above its first character."""
    number = bisect_right(headings, start, key=attrgetter("start")) - 1
    if number < 0:
        return title
    heading = headings[number]
    path = heading.above if heading.start == start else heading.path  # its own heading is in its text
    return BELOW.join((title, *path) if title and path[:1] != (title,) else path)


def _units(file: FileText, words: int) -> Iterator[_Unit]:
    language, pages = _guess_language(file.text), {start for start, _ in file.pages}
    for start, end, level in file.parts:
        count = _count(file.text[start:end])
        if count <= words:
            yield _Unit(start, end, count, level > 0, level > 0 or start in pages)
            continue
        for first, last in split_sentences(file.text[start:end], language, wrapped=False):
            yield from _cut_sentence(file.text, start + first, start + last, words)


def _cut_sentence(text: str, start: int, end: int, words: int) -> Iterator[_Unit]:
    """A sentence, in stretches of ``words`` words if it is longer."""
    spans = [match.span() for match in _WORD.finditer(text, start, end)]
    for first in range(0, len(spans), words):
        own = spans[first : first + words]
        yield _Unit(own[0][0], own[-1][1], len(own))


def _group(units: Iterable[_Unit], words: int) -> Iterator[tuple[int, int]]:
    """The first and the last character of each passage."""
    held: list[_Unit] = []
    for unit in units:
        count = sum(unit.words for unit in held)
        if held and (count + unit.words > words or (unit.begins and 2 * count >= words)):
            moved = [*takewhile(attrgetter("is_heading"), reversed(held))][::-1]
            if len(moved) == len(held) or sum(unit.words for unit in moved) + unit.words > words:
                moved = []
            yield held[0].start, held[len(held) - len(moved) - 1].end
            held = moved
        held.append(unit)
    if held:
        yield held[0].start, held[-1].end


def _count(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


def _guess_language(text: str) -> str:
    """The language of most stop words, which decides how the sentences of long paragraphs are split."""
    words = re.findall(r"\w+", text[:_LOOKED_AT].casefold())
    return max(_LANGUAGES, key=lambda name: sum(word in stop_words(_LANGUAGES[name]) for word in words))
