"""The best spans of a text, from a reader's logits: whole words, whose characters are the text's own.

The score of a span is the logit of its first token as a start plus that of its last token as an end. Only
spans of at most ``longest`` tokens are looked at, so a window of ``n`` tokens has ``n * longest`` of them.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from telerank.models.readers import Context, ContextWindow

Logits = npt.NDArray[np.float32]
COUNT = 20  # spans of a text that are kept, as in SQuAD's own n-best lists

_OTHER, _BLANK, _WORD, _JOINER, _ALONE = range(5)
"""Classes of characters. A joiner belongs to what is before it: marks, soft hyphens, zero-width joiners. The
letters of scripts without blanks stand alone."""
_JOINERS = "\u00ad\u200c\u200d\u2060"
_WITHOUT_BLANKS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """Characters ``start`` to ``end`` of a text, and the two logits whose sum is the score."""

    start: int
    end: int
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


@dataclass(frozen=True, slots=True)
class TextReading:
    """What a reader says of one text: its best spans, best first, and the score of no answer, ``null``.

    Of several windows the smallest score of no answer counts; infinity if the text has no token.
    """

    spans: tuple[AnswerSpan, ...] = ()
    null: float = math.inf


@dataclass(frozen=True, eq=False)
class TokenBounds:
    """The first character of a span that begins with each token, and the end of one that ends with it.

    Both (T,); -1 if no span may begin or end there, since it would cut a word.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


def find_bounds(context: Context) -> TokenBounds:
    """Where spans of whole words may begin and end; blanks at the edges of a token are left out."""
    classes = _classify(context.text)
    boundary = _boundaries(context.text, classes)
    blank = np.append(classes == _BLANK, False)
    numbers = np.arange(len(blank))
    after = np.minimum.accumulate(np.where(blank, len(blank), numbers)[::-1])[::-1]  # next that is no blank
    before = np.maximum.accumulate(np.append(0, np.where(blank[:-1], 0, numbers[:-1] + 1)))
    first, last = np.clip(context.offsets.T, 0, len(classes))
    starts, ends = after[first], before[last]
    inside = starts < ends
    return TokenBounds(
        np.where(inside & boundary[np.minimum(starts, len(classes))], starts, -1),
        np.where(inside & boundary[ends], ends, -1),
    )


def best_spans(
    windows: Sequence[ContextWindow],
    logits: Sequence[Logits],
    bounds: TokenBounds,
    *,
    longest: int,
    count: int = COUNT,
) -> tuple[AnswerSpan, ...]:
    """The ``count`` best spans of a text; among equal scores the earlier start, then the earlier end.

    ``logits`` has those of each window's context tokens, (n, 2). A start counts in the one window in which
    its token has most context.
    """
    best: dict[tuple[int, int], AnswerSpan] = {}
    for window, own in zip(windows, logits, strict=True):
        for span in _window_spans(window, own, bounds, longest, count):
            known = best.get((span.start, span.end))
            if known is None or known.score < span.score:  # tokens may be parts of one character
                best[span.start, span.end] = span
    return tuple(sorted(best.values(), key=_order)[:count])


def _window_spans(
    window: ContextWindow, logits: Logits, bounds: TokenBounds, longest: int, count: int
) -> list[AnswerSpan]:
    """The best spans of one window; several may have the same characters, at most ``count`` distinct ones."""
    stretch = slice(window.first, window.first + window.count)
    starts, ends = bounds.starts[stretch], bounds.ends[stretch]
    rows = np.flatnonzero((starts >= 0) & window.counts)
    if not len(rows):
        return []
    own = logits.astype(np.float64)  # a sum of two float32 is exact then
    end_scores = np.append(np.where(ends >= 0, own[:, 1], -np.inf), np.full(longest - 1, -np.inf))
    columns = np.lib.stride_tricks.sliding_window_view(end_scores, longest)[rows]  # (rows, longest)
    stops = np.lib.stride_tricks.sliding_window_view(np.append(ends, np.full(longest - 1, -1)), longest)
    table = np.where(stops[rows] > starts[rows, None], own[rows, :1] + columns, -np.inf)
    finite = int(np.isfinite(table).sum())
    kept, spans = count, list[AnswerSpan]()
    while finite and len({(span.start, span.end) for span in spans}) < count:
        kept = min(kept, finite)
        chosen = np.argwhere(table >= np.partition(table, -kept, axis=None)[-kept])
        spans = [
            AnswerSpan(
                int(starts[rows[row]]),
                int(stops[rows[row], wide]),
                float(own[rows[row], 0]),
                float(columns[row, wide]),
            )
            for row, wide in chosen.tolist()
        ]
        if kept == finite:
            break
        kept *= 4
    return spans


def _order(span: AnswerSpan) -> tuple[float, int, int]:
    return -span.score, span.start, span.end


def _classify(text: str) -> npt.NDArray[np.int8]:
    """The class of each character."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    distinct, numbers = np.unique(codes, return_inverse=True)
    table = np.array([_class_of(chr(code)) for code in distinct], np.int8)
    classes: npt.NDArray[np.int8] = table[numbers].reshape(-1) if len(codes) else np.empty(0, np.int8)
    digits = np.array([chr(code).isdigit() for code in distinct], bool)[numbers].reshape(-1)
    points = np.isin(codes, [ord("."), ord(",")])
    between = np.zeros(len(codes), bool)
    between[1:-1] = digits[:-2] & points[1:-1] & digits[2:]
    return np.where(between, _WORD, classes).astype(np.int8)  # 3.14 is one word


def _class_of(character: str) -> int:
    category = unicodedata.category(character)
    if category[0] == "M" or character in _JOINERS:
        return _JOINER
    if character.isspace() or category[0] == "Z" or category in ("Cc", "Cf"):
        return _BLANK
    if not character.isalnum():
        return _OTHER
    return _ALONE if unicodedata.name(character, "").startswith(_WITHOUT_BLANKS) else _WORD


def _boundaries(text: str, classes: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Whether a span may begin or end before each character, or after the last: (characters + 1,)."""
    boundary = np.ones(len(text) + 1, bool)
    left, right = classes[:-1], classes[1:]
    within = ((left == _WORD) | (left == _JOINER)) & (right == _WORD)
    boundary[1:-1] = ~(within | (right == _JOINER))
    return boundary
