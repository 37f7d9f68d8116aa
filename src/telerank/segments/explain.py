"""Which segment of a document counts most, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from telerank.reranking.explain import explain_score
from telerank.reranking.stage import CrossReranker
from telerank.segments.aggregate import Aggregate
from telerank.segments.split import Segments
from telerank.text.sentences import Span
from telerank.types import Explanation, Phrase, Scores

_SHOWN = 10  # segments of a document that an explanation names
_WIDTH = 80  # characters of a segment that it shows


@dataclass(frozen=True)
class SegmentMatch:
    """Segment ``number`` (from 0) of ``count``, its characters in the document's text, and its score."""

    number: int
    count: int
    span: Span
    text: str
    score: float
    weight: float


def match_segments(aggregate: Aggregate, segments: Segments, scores: Scores) -> list[SegmentMatch]:
    """The segments of a document, by their weight in its score, then their own score, then position."""
    weights = aggregate.weigh(scores)
    order = np.lexsort((np.arange(len(scores)), -scores, -np.abs(weights)))
    return [
        SegmentMatch(
            number,
            len(segments),
            segments.span(number),
            segments.text(number),
            scores[number].item(),
            weights[number].item(),
        )
        for number in order.tolist()
    ]


def explain_document(
    reranker: CrossReranker, aggregate: Aggregate, query: str, segments: Segments, scores: Scores
) -> Explanation:
    """The score of a document, its winning segment with what each sentence of that adds, and the others."""
    scorer = reranker.scorer
    matches = match_segments(aggregate, segments, scores)
    title = segments.kept_title
    winner = matches[0]
    inner = explain_score(scorer, query, f"{title} {winner.text}" if title else winner.text)
    parts = [Explanation(winner.score, _describe(winner, ", which counts most"), inner.parts)]
    parts += [Explanation(match.score, _describe(match)) for match in matches[1:_SHOWN]]
    if rest := matches[_SHOWN:]:
        best = max(match.score for match in rest)
        parts.append(Explanation(best, Phrase("the best of {n} more segments", n=len(rest))))
    best_of = len(aggregate.weights) if aggregate.kind == "best" else aggregate.k
    facts = {"k": best_of, "n": len(matches), "model": reranker.name or scorer.name}
    plural = "s" if len(matches) != 1 else ""
    what = Phrase(_NAMES[aggregate.kind] + " {n} segment{plural} by {model}", plural=plural, **facts)
    return Explanation(aggregate(scores), what, tuple(parts))


def _describe(match: SegmentMatch, more: str = "") -> Phrase:
    line = " ".join(match.text[: 4 * _WIDTH].split())
    shown = line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…"
    weight = "" if match.weight in (0, 1) else f", times {match.weight:.4g}"
    facts = {"n": match.number + 1, "of": match.count, "text": shown, "weight": weight}
    template = "segment {n} of {of}, characters {span.start:,} to {span.end:,}{weight}: “{text}”"
    return Phrase(template + more, span=match.span, **facts)


_NAMES = {
    "first": "the first of",
    "max": "the greatest of",
    "mean": "the mean of",
    "sum": "the sum of",
    "kmax": "the mean of the {k} best of",
    "best": "the weighted sum of the {k} best of",
}
