"""A document as the page shows it: in parts, by lines, with its pages and what is marked in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from telerank.service.page.highlight import mark
from telerank.service.page.pages import Pages, Values
from telerank.types import Doc, Mark

LENGTH = 24_000  # characters of a document on one page, if a line ends there
_LONGEST = 2 * LENGTH
_LINES = re.compile(r"[^\n\r\v\f\x85\u2028\u2029]+")
_PASSAGE = re.compile(r"(.+)#([1-9]\d{0,8})")  # a passage of a file, by its docno
_BELOW = "›"  # between a heading and one below it


@dataclass(frozen=True)
class Excerpt:
    """An excerpt of a document: the characters ``at`` are marked, as an answer or as the passage of a result.

    ``part`` is the part that is shown, from 1; None: the one in which it begins, or the first.
    """

    at: tuple[int, int] | None = None
    part: int | None = None
    is_answer: bool = False


def view_document(pages: Pages, docno: str, excerpt: Excerpt) -> Values:
    """The part of a document in which an excerpt is; one that is not in the document is not marked.

    ``before`` and ``after`` are the addresses of the parts beside it, or of the passages of its file, if any.
    """
    doc = pages.doc(docno)
    cuts, at = _cuts(doc.text), excerpt.at
    if at is not None and not 0 <= at[0] < at[1] <= len(doc.text):
        at = None
    last = len(cuts) - 1
    number = min(max(excerpt.part or 1, 1), last)
    if excerpt.part is None and at is not None:
        number = bisect_right(cuts, at[0])
    lines = list(_lines(pages, doc, (cuts[number - 1], cuts[number]), at, is_answer=excerpt.is_answer))
    addresses = []
    for step in (-1, 1):
        beside, match = "", _PASSAGE.fullmatch(doc.docno)
        if 1 <= number + step <= last:
            beside = pages.links.document(pages.inquiry, doc.docno, part=number + step)
        elif doc.file and match and (name := f"{match[1]}#{int(match[2]) + step}") in pages.index.docs:
            beside = pages.links.document(pages.inquiry, name)
        addresses.append(beside)
    return {
        "source": pages.source(doc),
        "lines": lines,
        "part": number,
        "parts": last,
        "before": addresses[0],
        "after": addresses[1],
        "is_marked": any(line["is_marked"] for line in lines),
    }


def _lines(
    pages: Pages, doc: Doc, span: tuple[int, int], at: tuple[int, int] | None, *, is_answer: bool
) -> Iterator[Values]:
    """The lines of a text in parts; ``page`` begins with it, or is 0.

    ``is_marked`` says that it is in the passage that is marked, ``is_first`` that this begins in it.
    """
    matches = [(span[0] + start, span[0] + end) for start, end in pages.matches(doc.text[slice(*span)])]
    ends = [end for _, end in matches]
    is_first, shown_page = True, 0
    for line in _LINES.finditer(doc.text, *span):
        if not line[0].strip():
            continue
        start, end = line.span()
        inside = matches[bisect_right(ends, start) : bisect_left(matches, (end,))]
        is_marked = at is not None and at[0] < end and start < at[1]
        answer = (max(at[0], start), min(at[1], end)) if at is not None and is_marked and is_answer else None
        # the last mark before the end of the line says its page, and its heading if it begins in the line
        number = bisect_left(doc.marks, (end,))
        last = doc.marks[number - 1] if number else Mark(0)
        heading = last.heading.rpartition(_BELOW)[2].split()
        yield {
            "parts": mark(doc.text, inside, answer=answer, shown=(start, end)),
            "page": last.page if last.page != shown_page else 0,
            "is_heading": last.start >= start and bool(heading) and heading == line[0].split(),
            "is_marked": is_marked,
            "is_first": is_marked and is_first,
        }
        is_first, shown_page = is_first and not is_marked, last.page


def _cuts(text: str) -> list[int]:
    """Where the parts of a text begin, and its end: after a line, or at a blank if a line is too long."""
    cuts = [0]
    while len(text) - cuts[-1] > LENGTH + LENGTH // 4:
        least, most = cuts[-1] + LENGTH, min(cuts[-1] + _LONGEST, len(text))
        at = text.find("\n", least, most)
        at = at if at >= 0 else text.find(" ", least, most)
        cuts.append(at + 1 if at >= 0 else least)
    return [*cuts, len(text)]
