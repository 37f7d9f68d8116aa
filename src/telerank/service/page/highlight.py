"""Which characters of a text match a query, and the passages of the text around them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from telerank.retrieval.index import Index
from telerank.text.analyzer import Analyzer, TermPlace, locate_terms
from telerank.text.sentences import Span, split_sentences

LENGTH = 320  # characters of a snippet, about three lines
SEARCHED = 200_000  # characters of a document in which a snippet is looked for
_WORD = 30  # characters that a cut moves to the end of a word
_BLANK = re.compile(r"\s|\Z")
_BREAK = re.compile(r"(?<=([^\s]))[^\S\n]*\n\s*")
_ENDS = ".!?…:;,»”)"
_SENTENCE = re.compile(r"[.!?…][»”\"’)]*\s+|\n\s*")


@dataclass(frozen=True)
class Part:
    """A piece of a text that is shown; ``kind`` is ``match``, ``answer``, ``cut`` (an ellipsis) or empty."""

    text: str
    kind: str = ""


def query_terms(index: Index, query: str) -> dict[str, float]:
    """The terms of a query with their weights: the rarer in the index, the more. None without words."""
    if not index.has_texts:
        return {}
    terms, count = dict.fromkeys(index.analyzer(query)), len(index)
    return {text: math.log(1 + count / (1 + index.sparse.term(text).df)) for text in terms}


def find_matches(analyzer: Analyzer, text: str, terms: Mapping[str, float]) -> list[TermPlace]:
    """The places of the query's terms in a text."""
    return list(locate_terms(analyzer, text, terms)) if terms else []


def mark(
    text: str,
    matches: Iterable[tuple[int, int]],
    *,
    answer: tuple[int, int] | None = None,
    shown: tuple[int, int] | None = None,
) -> list[Part]:
    """The characters ``shown`` of a text (None: all) in parts: the answer's, the matches', the others.

    Matches that touch, or are separated by a blank alone, are one part; those in the answer are part of it.
    """
    at, end = shown or (0, len(text))
    spans = [(first, last, "match") for first, last in _joined(text, matches)]
    if answer is not None:
        before = [(first, min(last, answer[0]), kind) for first, last, kind in spans if first < answer[0]]
        behind = [(max(first, answer[1]), last, kind) for first, last, kind in spans if last > answer[1]]
        spans = [*before, (*answer, "answer"), *behind]
    parts: list[Part] = []
    for first, last, kind in spans:
        first, last = max(first, at), min(last, end)
        if first < last:
            parts += [Part(text[at:first]), Part(text[first:last], kind)]
            at = last
    return [part for part in (*parts, Part(text[at:end])) if part.text]


def snippet(
    text: str, matches: Sequence[TermPlace], weights: Mapping[str, float], length: int = LENGTH
) -> list[Part]:
    """The passages of :func:`best_passages` as :func:`show_passages` shows them."""
    return show_passages(text, matches, best_passages(text, matches, weights, length))


def show_passages(text: str, matches: Sequence[TermPlace], spans: Sequence[Span]) -> list[Part]:
    """Passages of a text with the matches in them, and an ellipsis where text is left out."""
    marked = [(place.start, place.end) for place in matches]
    parts: list[Part] = []
    for number, span in enumerate(spans):
        before = text[max(0, span.start - 10) : span.start].rstrip(' \u00a0»”"’)')[-1:]
        if span.start > 0 and (number or before not in {".", "!", "?", "…", "\n", ""}):
            parts.append(Part(" … " if number else "… ", "cut"))
        parts += mark(text, marked, shown=span)
    if spans[-1].end < len(text.rstrip()):
        parts.append(Part(" …", "cut"))
    return parts


def around(text: str, span: Span, length: int = LENGTH, language: str = "en") -> Span:
    """The sentences of a span, with those before and behind as far as they fit into ``length`` characters."""
    near = Span(max(0, span.start - length), min(len(text), span.end + length))
    sentences = split_sentences(text[near.start : near.end], language)
    spans = [Span(near.start + start, near.start + end) for start, end in sentences]
    inside = [s for s in spans if s.start < span.end and span.start < s.end]
    if not inside or inside[-1].end - inside[0].start > 3 * length:
        return _fit(text, span, length)
    start, end = min(inside[0].start, span.start), max(inside[-1].end, span.end)
    end = max([end, *(s.end for s in spans if s.start >= end and s.end - start <= length)])
    start = min([start, *(s.start for s in spans if s.end <= start and end - s.start <= length)])
    return _fit(text, Span(start, end), 0)


def _joined(text: str, spans: Iterable[tuple[int, int]]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and (start <= joined[-1].end or text[joined[-1].end : start] in (" ", "\u00a0", "\u202f")):
            joined[-1] = Span(joined[-1].start, max(end, joined[-1].end))
        else:
            joined.append(Span(start, end))
    return joined


def best_passages(
    text: str, matches: Sequence[TermPlace], weights: Mapping[str, float], length: int = LENGTH
) -> list[Span]:
    """The passages of a text that hold most of the query's terms, cut at words, in the order of the text.

    One passage of about ``length`` characters; if it lacks terms that the text has elsewhere, two of half
    that length. The beginning of the text without matches.
    """
    if not matches:
        return [_fit(text, Span(0, 0), length)]
    best = _best_window(matches, weights, 3 * length // 4)  # the rest is for the words around them
    if {place.term for place in matches} == {place.term for place in best}:
        return [_fit(text, _hull(best), length)]
    first = _hull(_best_window(matches, weights, length // 3))
    shown = {place.term for place in matches if first.start <= place.start < first.end}
    others = [place for place in matches if place.term not in shown]
    second = _hull(_best_window(others, weights, length // 3))
    spans = sorted(_fit(text, span, length // 2) for span in (first, second))
    return [Span(spans[0].start, spans[1].end)] if spans[1].start <= spans[0].end + 1 else spans


def _best_window(
    matches: Sequence[TermPlace], weights: Mapping[str, float], length: int
) -> Sequence[TermPlace]:
    """The matches within ``length`` characters whose terms weigh most; of equal ones the first, longest."""
    best, most, end = matches[:1], -1.0, 0
    for begin, first in enumerate(matches):
        end = max(end, begin + 1)
        while end < len(matches) and matches[end].end - first.start <= length:
            end += 1
        window = matches[begin:end]
        weight = sum(weights[term] for term in {place.term for place in window}) + 0.01 * len(window)
        if weight > most:
            best, most = window, weight
    return best


def _hull(matches: Sequence[TermPlace]) -> Span:
    return Span(matches[0].start, matches[-1].end)


def _fit(text: str, span: Span, length: int) -> Span:
    """A span of about ``length`` characters around a span, from and to the ends of words."""
    start = max(0, span.start - max(0, length - (span.end - span.start)) // 2)
    # the first sentence that begins there, as far as marks and line ends show it, or else a word
    sentence = _SENTENCE.search(text, max(0, start - 2), span.start) if start else None
    if sentence:
        start = sentence.end()
    elif start:
        blank = max(text.rfind(mark, max(0, start - _WORD), start) for mark in " \n")
        start = blank + 1 if blank >= 0 else _between_characters(text, start)
    end = min(len(text), max(start + length, span.end))
    blank_after = _BLANK.search(text, end, min(len(text), end + _WORD))
    is_end = blank_after is not None and (blank_after[0] or blank_after.start() == len(text))
    end = blank_after.start() if blank_after and is_end else _between_characters(text, end)
    while start < end and text[start].isspace():
        start += 1
    return Span(start, start + len(text[start:end].rstrip()))


def _between_characters(text: str, at: int) -> int:
    while 0 < at < len(text) and unicodedata.combining(text[at]):
        at += 1
    return at


def flow(parts: Iterable[Part]) -> list[Part]:
    """Lines of a text as one: a dot stands for a line end that ends no sentence."""
    flowing, last = [], ""
    for part in parts:
        text = _BREAK.sub(lambda line: " " if line[1] in _ENDS else " · ", f"{last}{part.text}")[len(last) :]
        flowing.append(Part(text, part.kind))
        last = part.text[-1:]
    return flowing
