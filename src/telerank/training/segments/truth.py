"""Known relevant passages of documents: aligned with the documents by query and content (BeST, section 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from telerank.segments.split import Segments
from telerank.text.sentences import Span
from telerank.types import Answer, Doc

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, eq=False)
class Truth:
    """The spans of known passages in documents' texts, ``spans[qid, docno]``; ``passages`` were given."""

    spans: Mapping[tuple[str, str], tuple[Span, ...]]
    passages: int
    aligned: int
    moved: int = 0

    def describe(self) -> dict[str, int]:
        """The counts, by description."""
        share = round(100 * self.aligned / self.passages) if self.passages else 0
        return {
            "known passages of these documents": self.passages,
            f"of them found in their document ({share} %)": self.aligned,
            "of them found elsewhere than their offset says": self.moved,
        }

    def is_right(self, qid: str, segments: Segments, number: int) -> bool:
        """Whether a segment contains a known passage of its document as a whole."""
        start, end = segments.span(number)
        return any(start <= span.start and span.end <= end for span in self.spans[qid, segments.doc.docno])

    def is_reachable(self, qid: str, segments: Segments) -> bool:
        """Whether any of these segments does."""
        return any(self.is_right(qid, segments, number) for number in range(len(segments)))

    def gold(self, qid: str, segments: Segments) -> int:
        """The segment with most of a known passage: the first that contains one, if one does."""
        spans = self.spans[qid, segments.doc.docno]

        def most(number: int) -> float:
            start, end = segments.span(number)
            shares = ((min(end, s.end) - max(start, s.start)) / max(1, s.end - s.start) for s in spans)
            return max(shares)

        return max(range(len(segments)), key=lambda number: (most(number), -number))


def align(answers: Iterable[Answer], docs: Mapping[str, Doc]) -> Truth:
    """Find each passage in its document: where its offset says, else where its text is nearest to that.

    Texts are compared by their words: blanks, line ends and upper case do not count. Passages of other
    documents than ``docs`` are not looked at.
    """
    spans: dict[tuple[str, str], dict[Span, None]] = {}
    passages = moved = aligned = 0
    for answer in answers:
        doc = docs.get(answer.docno)
        if doc is None:
            continue
        passages += 1
        span = _find(answer, doc.text)
        if span is not None:
            aligned += 1
            moved += span.start != answer.start
            spans.setdefault((answer.qid, answer.docno), {})[span] = None
    return Truth({pair: tuple(own) for pair, own in spans.items()}, passages, aligned, moved)


def _find(answer: Answer, text: str) -> Span | None:
    """Where the passage is, if it is there."""
    words = _BLANKS.split(answer.text.strip())
    if not words[0]:
        return None
    if text[answer.start : answer.end] == answer.text:
        return Span(answer.start, answer.end)
    pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    matches = [Span(match.start(), match.end()) for match in pattern.finditer(text)]
    return min(matches, key=lambda span: abs(span.start - answer.start), default=None)
