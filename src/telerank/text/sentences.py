"""Where the sentences of an English or French text begin and end.

Ends are sought at ``. ! ? …`` and at line ends, in time linear in the text; ``stops.py`` judges each
candidate by what stands around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from telerank.text.abbreviations import LANGUAGES, Abbreviations
from telerank.text.sentence_ends import Stop, ends_sentence

RULES = 1
"""Raised with any change by which a text comes apart elsewhere: what is stored by sentences is kept by it."""


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (not included) of a text."""

    start: int
    end: int


def split_sentences(text: str, language: str = "en", *, wrapped: bool | None = None) -> list[Span]:
    """The sentences in order: together they hold every character that is not blank, each once.

    Neither end of a sentence is blank. A line end ends a sentence; in a ``wrapped`` text, whose lines are
    broken at a width, only an empty line or a list item does (None: each paragraph is looked at with
    ``is_wrapped``). With ``wrapped`` given, splitting a sentence gives that sentence.

    Raises
    ------
    ValueError
        For a language other than ``en`` and ``fr``.
    """
    if language not in LANGUAGES:
        raise ValueError(f"sentences are split in {', '.join(LANGUAGES)}, got language {language!r}")
    words = LANGUAGES[language]
    return [span for block in _blocks(text, wrapped) for span in _in_block(text, block, words)]


def is_wrapped(paragraph: str) -> bool:
    """Whether lines seem broken at a width (40 to 132 characters) and not where something ends.

    Of the lines that do not end a sentence, two in three must be such that the next word would not have
    fitted, or be over half as long as the width and go on in lower case.
    """
    lines = [line.rstrip() for line in paragraph.splitlines() if not line.isspace() and line]
    width = max(map(len, lines), default=0)
    if not 40 <= width <= 132 or len(lines) < 3:
        return False
    pairs = [(line, after.lstrip()) for line, after in pairwise(lines) if not line.endswith(_ENDINGS)]
    full = sum(_runs_on(len(line), after, width) for line, after in pairs)
    return full > 0 and full * 3 >= len(pairs) * 2


def _runs_on(length: int, after: str, width: int) -> bool:
    return length + 1 + len(after.split(None, 1)[0]) > width or (2 * length > width and after[0].islower())


_ENDINGS = tuple(".!?…:;”»)")
_LINE_END = "(?>\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
_ITEM = r"[^\S\n\r]*(?:[-*•‣◦▪–—]|\(?(?:\d{1,3}|[a-z])[.)])[^\S\n\r]"
_LINE_ENDS = re.compile(_LINE_END)
_PARAGRAPH_ENDS = re.compile(rf"{_LINE_END}(?:[^\S\n\r]*{_LINE_END})+")
_ITEM_STARTS = re.compile(rf"(?<=[.:;!?…]){_LINE_END}(?={_ITEM})")


def _blocks(text: str, wrapped: bool | None) -> Iterator[Span]:
    """What no sentence crosses the ends of."""
    for start, end in _between(_PARAGRAPH_ENDS, text, Span(0, len(text))):
        is_soft = is_wrapped(text[start:end]) if wrapped is None else wrapped
        yield from _between(_ITEM_STARTS if is_soft else _LINE_ENDS, text, Span(start, end))


def _between(ends: re.Pattern[str], text: str, span: Span) -> Iterator[Span]:
    start = span.start
    for found in ends.finditer(text, *span):
        yield Span(start, found.start())
        start = found.end()
    yield Span(start, span.end)


_OPENING = r"\s\"'“”‘«‹(\[{¿¡*_#>•–—-"
_ONWARD = re.compile(rf"[{_OPENING}]*+(?:(?:…|\.{{3}})[\])]?[{_OPENING}]*+)?")
_TO_WORD = re.compile(r"[\W_]*+")
_BLANKS = re.compile(r"\s*+")
_CANDIDATE = re.compile(
    r"(?<![.!?…])(?P<mark>[.!?…]++(?:[ \u00a0\u202f][!?]++)*+)"
    r"(?P<close>(?:[\"'”’»›)\]}*_]|[ \u00a0\u202f]»|\[\d{1,3}\])*+)"
    r"(?:(?=\s|\Z)|(?<=[.!?])(?P<glued>(?=[A-ZÀ-ÖØ-Þ])))"
)
_SEEN_BEFORE, _SEEN_AFTER = 48, 24  # characters


def _in_block(text: str, block: Span, words: Abbreviations) -> Iterator[Span]:
    end = block.start + len(text[block.start : block.end].rstrip())
    start = _skip(_BLANKS, text, block.start, end)
    core = _skip(_TO_WORD, text, start, end)
    for found in _CANDIDATE.finditer(text, start, end):
        if core < found.start() and found.end() < end and ends_sentence(_stop(text, found, core, end), words):
            yield Span(start, found.end())
            start = _skip(_BLANKS, text, found.end(), end)
            core = _skip(_TO_WORD, text, start, end)
    if start < end:
        yield Span(start, end)


def _stop(text: str, found: re.Match[str], core: int, end: int) -> Stop:
    before = text[max(core, found.start() - _SEEN_BEFORE) : found.start()]
    onward = _skip(_ONWARD, text, found.end(), end)
    return Stop(
        mark=found["mark"],
        close=found["close"],
        glued=found["glued"] is not None,
        before=before,
        is_whole=len(before) == found.start() - core,
        after=text[onward : min(end, onward + _SEEN_AFTER)],
    )


def _skip(what: re.Pattern[str], text: str, start: int, end: int) -> int:
    found = what.match(text, start, end)
    return found.end() if found else start
