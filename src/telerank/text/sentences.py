"""Splitting of English and French texts into sentences, in linear time.

Sentences may end at ``. ! ? …`` and at line ends; :mod:`.sentence_ends` decides about each mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from telerank.text.abbreviations import LANGUAGES, Abbreviations
from telerank.text.sentence_ends import Stop, ends_sentence

RULES = 1
"""Version of the rules, incremented when any text is split elsewhere; stored features depend on it."""


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (not included) of a text."""

    start: int
    end: int


def split_sentences(text: str, language: str = "en", *, wrapped: bool | None = None) -> list[Span]:
    """Split a text into sentences, which contain every character that is not blank exactly once.

    Sentences neither begin nor end with a blank. A line end ends a sentence; in a ``wrapped`` text, whose
    lines are broken at a width, only an empty line or a list item does (None: :func:`is_wrapped` decides for
    each paragraph). With ``wrapped`` given, splitting a sentence gives that sentence.

    Raises ValueError if the language is neither ``en`` nor ``fr``.
    """
    if language not in LANGUAGES:
        raise ValueError(f"sentences are split in {', '.join(LANGUAGES)}, got language {language!r}")
    words = LANGUAGES[language]
    return [span for block in _blocks(text, wrapped) for span in _split_block(text, block, words)]


def cover_sentences(text: str, span: Span, language: str = "en") -> Span:
    """The sentences that a span is in, as one span; the span itself where there are only blanks."""
    start, end = span
    for sentence in split_sentences(text, language):
        if sentence.start < span.end and span.start < sentence.end:
            start, end = min(start, sentence.start), max(end, sentence.end)
    return Span(start, end)


def is_wrapped(paragraph: str) -> bool:
    """Whether the lines seem to be broken at a width of 40 to 132 characters.

    Of the lines that do not end a sentence, two in three must have no room for the next word, or be longer
    than half the width and continue in lower case.
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
    """Spans that no sentence crosses: lines, or paragraphs and list items of wrapped text."""
    for start, end in _between(_PARAGRAPH_ENDS, text, Span(0, len(text))):
        is_soft = is_wrapped(text[start:end]) if wrapped is None else wrapped
        yield from _between(_ITEM_STARTS if is_soft else _LINE_ENDS, text, Span(start, end))


def _between(ends: re.Pattern[str], text: str, span: Span) -> Iterator[Span]:
    start = span.start
    for match in ends.finditer(text, *span):
        yield Span(start, match.start())
        start = match.end()
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


def _split_block(text: str, block: Span, words: Abbreviations) -> Iterator[Span]:
    end = block.start + len(text[block.start : block.end].rstrip())
    start = _skip(_BLANKS, text, block.start, end)
    core = _skip(_TO_WORD, text, start, end)
    for match in _CANDIDATE.finditer(text, start, end):
        if core < match.start() and match.end() < end and ends_sentence(_stop(text, match, core, end), words):
            yield Span(start, match.end())
            start = _skip(_BLANKS, text, match.end(), end)
            core = _skip(_TO_WORD, text, start, end)
    if start < end:
        yield Span(start, end)


def _stop(text: str, match: re.Match[str], core: int, end: int) -> Stop:
    before = text[max(core, match.start() - _SEEN_BEFORE) : match.start()]
    onward = _skip(_ONWARD, text, match.end(), end)
    return Stop(
        mark=match["mark"],
        close=match["close"],
        glued=match["glued"] is not None,
        before=before,
        is_whole=len(before) == match.start() - core,
        after=text[onward : min(end, onward + _SEEN_AFTER)],
    )


def _skip(what: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = what.match(text, start, end)
    return match.end() if match else start
