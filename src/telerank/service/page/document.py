"""A document as the page shows it: in parts, by lines, with its pages and what is marked in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from telerank.service.page.highlight import Part, mark
from telerank.service.page.view import Shown, SourceView
from telerank.types import Doc, Mark

LENGTH = 24_000
"""Characters of a document on one page, if a line ends there."""
_LONGEST = 2 * LENGTH
_LINES = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")
_PASSAGE = re.compile(r"(.+)#([1-9]\d{0,8})")  # a passage of a file, by its docno
_BELOW = "›"  # between a heading and one below it


@dataclass(frozen=True)
class LineView:
    """A line of a text in parts; ``page`` begins with it, or is 0.

    ``is_marked`` says that it is in the passage that is marked, ``is_first`` that this begins in it.
    """

    parts: tuple[Part, ...]
    page: int = 0
    is_heading: bool = False
    is_marked: bool = False
    is_first: bool = False


@dataclass(frozen=True)
class DocumentView:
    """A document's name and the lines of one of its parts.

    ``before`` and ``after`` are the addresses of the parts beside it, or of the passages of its file, if any.
    """

    source: SourceView
    lines: tuple[LineView, ...]
    part: int
    parts: int
    before: str
    after: str
    is_marked: bool


@dataclass(frozen=True)
class Excerpt:
    """An excerpt of a document: the characters ``at`` are marked, as an answer or as the passage of a result.

    ``part`` is the part that is shown, from 1; None: the one in which it begins, or the first.
    """

    at: tuple[int, int] | None = None
    part: int | None = None
    is_answer: bool = False


def view_document(shown: Shown, doc: Doc, excerpt: Excerpt) -> DocumentView:
    """The part of a document in which an excerpt is; one that is not in the document is not marked."""
    cuts = _cuts(doc.text)
    last = len(cuts) - 1
    at = (
        excerpt.at if excerpt.at is not None and 0 <= excerpt.at[0] < excerpt.at[1] <= len(doc.text) else None
    )
    if excerpt.part is None and at is not None:
        number = bisect_right(cuts, at[0]) - 1
    else:
        number = min(max(excerpt.part or 1, 1), last) - 1
    lines = tuple(_lines(shown, doc, (cuts[number], cuts[number + 1]), at, is_answer=excerpt.is_answer))
    part_links = [shown.links.document(shown.inquiry, doc.docno, part=n) for n in range(1, last + 1)]
    before, after = (part_links[n] if 0 <= n < last else "" for n in (number - 1, number + 1))
    return DocumentView(
        shown.source(doc),
        lines,
        number + 1,
        last,
        before or _neighbour(shown, doc, -1),
        after or _neighbour(shown, doc, 1),
        any(line.is_marked for line in lines),
    )


def _neighbour(shown: Shown, doc: Doc, step: int) -> str:
    """The address of the passage before or behind this one in its file; empty if there is none."""
    match = _PASSAGE.fullmatch(doc.docno)
    if not doc.file or match is None:
        return ""
    docno = f"{match[1]}#{int(match[2]) + step}"
    return shown.links.document(shown.inquiry, docno) if docno in shown.index.docs else ""


def _lines(
    shown: Shown, doc: Doc, span: tuple[int, int], at: tuple[int, int] | None, *, is_answer: bool
) -> Iterator[LineView]:
    matches = [(span[0] + start, span[0] + end) for start, end in shown.matches(doc.text[slice(*span)])]
    ends = [end for _, end in matches]
    marks = _Marks(doc.marks)
    is_first = True
    for line in _LINES.finditer(doc.text, *span):
        if not line[0].strip():
            continue
        start, end = line.span()
        own = matches[bisect_right(ends, start) : bisect_left(matches, (end,))]
        is_marked = at is not None and at[0] < end and start < at[1]
        answer = (max(at[0], start), min(at[1], end)) if at is not None and is_marked and is_answer else None
        parts = mark(doc.text, own, answer=answer, shown=(start, end))
        page, is_heading = marks.look(start, end, line[0])
        yield LineView(tuple(parts), page, is_heading, is_marked, is_marked and is_first)
        is_first = is_first and not is_marked


class _Marks:
    """The marks of a document, looked at line by line."""

    def __init__(self, marks: tuple[Mark, ...]) -> None:
        self._marks = marks
        self._page = 0

    def look(self, start: int, end: int, line: str) -> tuple[int, bool]:
        """The page that begins in a line, or 0, and whether the line is a heading."""
        number = bisect_left(self._marks, (end,))
        last = self._marks[number - 1] if number else Mark(0)
        page = last.page if last.page != self._page else 0
        self._page = last.page
        name = last.heading.rpartition(_BELOW)[2].split()
        return page, last.start >= start and bool(name) and name == line.split()


def _cuts(text: str) -> list[int]:
    """Where the parts of a text begin, and its end: after a line, or at a blank if a line is too long."""
    cuts = [0]
    while len(text) - cuts[-1] > LENGTH + LENGTH // 4:
        least, most = cuts[-1] + LENGTH, min(cuts[-1] + _LONGEST, len(text))
        at = text.find("\n", least, most)
        at = at if at >= 0 else text.find(" ", least, most)
        cuts.append(at + 1 if at >= 0 else least)
    return [*cuts, len(text)]
