"""A document as the page shows it: in parts of some length, by lines, with what is marked in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from telerank.service.page.highlight import Part, mark
from telerank.service.page.view import Shown, SourceView
from telerank.types import Doc

LENGTH = 24_000
"""Characters of a document on one page, if a line ends there."""
_LONGEST = 2 * LENGTH
_LINES = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")


@dataclass(frozen=True)
class LineView:
    """A line of a text in parts; whether it is in the passage that is marked, and the first such line."""

    parts: tuple[Part, ...]
    is_marked: bool = False
    is_first: bool = False


@dataclass(frozen=True)
class DocumentView:
    """A document's name and the lines of one of its parts; addresses of the parts beside it, if any."""

    source: SourceView
    lines: tuple[LineView, ...]
    part: int
    parts: int
    before: str
    after: str
    is_marked: bool


@dataclass(frozen=True)
class Place:
    """A place in a document: the characters ``at`` are marked, as an answer or as the passage of a result.

    ``part`` is the part that is shown, from 1; None: the one in which the place begins, or the first.
    """

    at: tuple[int, int] | None = None
    part: int | None = None
    is_answer: bool = False


def view_document(shown: Shown, doc: Doc, place: Place) -> DocumentView:
    """The part of a document in which a place is; a place that is not in the document is not marked."""
    cuts = _cuts(doc.text)
    last = len(cuts) - 1
    at = place.at if place.at is not None and 0 <= place.at[0] < place.at[1] <= len(doc.text) else None
    if place.part is None and at is not None:
        number = next(number for number, end in enumerate(cuts[1:]) if at[0] < end)
    else:
        number = min(max(place.part or 1, 1), last) - 1
    start, end = cuts[number], cuts[number + 1]
    inside = None
    if at is not None and at[0] < end and start < at[1]:
        inside = max(at[0], start) - start, min(at[1], end) - start
    parts = [shown.links.document(shown.asked, doc.docno, part=n) for n in range(1, last + 1)]
    return DocumentView(
        shown.source(doc),
        _lines(shown, doc.text[start:end], inside, is_answer=place.is_answer),
        number + 1,
        last,
        parts[number - 1] if number else "",
        parts[number + 1] if number + 1 < last else "",
        inside is not None,
    )


def _lines(shown: Shown, text: str, at: tuple[int, int] | None, *, is_answer: bool) -> tuple[LineView, ...]:
    matches = shown.matches(text)
    lines: list[LineView] = []
    next_match = 0
    is_first = True
    for line in _LINES.finditer(text):
        start, end = line.span()
        if not line[0].strip():
            continue
        while next_match < len(matches) and matches[next_match][1] <= start:
            next_match += 1
        own = [match for match in matches[next_match : next_match + end - start] if match[0] < end]
        is_marked = at is not None and at[0] < end and start < at[1]
        answer = (max(at[0], start), min(at[1], end)) if at is not None and is_marked and is_answer else None
        parts = mark(text, own, answer=answer, shown=(start, end))
        lines.append(LineView(tuple(parts), is_marked, is_marked and is_first))
        is_first = is_first and not is_marked
    return tuple(lines)


def _cuts(text: str) -> list[int]:
    """Where the parts of a text begin, and its end: after a line, or at a blank if a line is too long."""
    cuts = [0]
    while len(text) - cuts[-1] > LENGTH + LENGTH // 4:
        least, most = cuts[-1] + LENGTH, min(cuts[-1] + _LONGEST, len(text))
        at = text.find("\n", least, most)
        at = at if at >= 0 else text.find(" ", least, most)
        cuts.append(at + 1 if at >= 0 else least)
    return [*cuts, len(text)]
