"""P@1 of segments: how often the best-scored segment of a relevant document holds the text that is relevant.

BeST (Kim et al. 2021, section 4) counts "a selected document segment with respect to a query as
correct if the selected segment contains the relevant passage". There are two rules for a passage across
segments:

``whole``
    As the text says: a segment holds a span if it has all of it. A span across segments without overlap is
    held by none, and its pair is a miss, whatever the model selects; ``reachable`` is the share that are not.
``most``
    A segment holds a span if it has at least half of its characters: of a span across two segments one
    holds it, or both if each has exactly half. No span of a document is held by none, unless it stands
    across three segments or more, or where the segments leave text out.

Of several spans of a pair (annotators mark the same answer differently) any one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from telerank.errors import ArgumentError
from telerank.evaluation.statistics import bootstrap_intervals

# The first character, and the one after the last.
TextSpan: TypeAlias = tuple[int, int]
HoldRule: TypeAlias = Literal["most", "whole"]


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """The segment that a model selects in a relevant document: whether it is right, and how easy that is.

    ``chance`` is the share of the document's segments that hold the relevant text, which a random choice
    finds; ``first`` is whether the first segment holds it.
    """

    qid: str
    docno: str
    right: bool
    chance: float
    first: bool


@dataclass(frozen=True)
class SegmentPrecision:
    """P@1 over pairs of a query and a relevant document, with the confidence interval of its mean.

    ``chance`` is the expected P@1 of a random choice, ``first`` that of the first segment, ``reachable`` the
    share of pairs in which any segment holds the relevant text.
    """

    pairs: int
    queries: int
    precision: float
    low: float
    high: float
    chance: float
    first: float
    reachable: float
    confidence: float = 0.95


def held_by(gold: Sequence[TextSpan], segments: Sequence[TextSpan], rule: HoldRule = "whole") -> list[bool]:
    """For each segment of a document whether it holds any of the gold spans; see the module for the rules.

    Raises ValueError if a gold span is empty.
    """
    for begin, end in gold:
        if begin >= end:
            raise ArgumentError(f"a gold span from {begin} to {end} has no text")
    parts = 1 if rule == "whole" else 2
    return [
        any(parts * (min(end, last) - max(start, begin)) >= end - start for start, end in gold)
        for begin, last in segments
    ]


def choose_segment(
    pair: tuple[str, str],
    gold: Sequence[TextSpan],
    segments: Sequence[TextSpan],
    selected: int,
    *,
    rule: HoldRule = "whole",
) -> SegmentChoice:
    """Judge the segment number ``selected`` of a pair (qid, docno); ``segments`` are all of the document's.

    Raises ValueError if the pair has no gold span, or there is no such segment.
    """
    if not gold:
        raise ArgumentError(f"query {pair[0]}, document {pair[1]}: no gold span")
    if not 0 <= selected < len(segments):
        raise ArgumentError(
            f"query {pair[0]}, document {pair[1]}: no segment {selected} among {len(segments)}"
        )
    held = held_by(gold, segments, rule)
    return SegmentChoice(*pair, held[selected], sum(held) / len(held), held[0])


def top_segment(scores: Sequence[float] | np.ndarray[Any, Any]) -> int:
    """The number of the segment with the highest score: of equal ones the first, as in an arg-max."""
    return int(np.argmax(np.asarray(scores)))


def measure_segments(choices: Iterable[SegmentChoice], *, seed: int = 0) -> SegmentPrecision:
    """P@1 of choices, with a percentile interval from 10,000 bootstrap samples of the queries.

    Queries are drawn with all of their pairs. Raises ValueError without choices.
    """
    judged = list(choices)
    if not judged:
        raise ArgumentError("no pair has known relevant text: segment P@1 has nothing to measure")
    numbers: dict[str, int] = {}
    query = np.array([numbers.setdefault(choice.qid, len(numbers)) for choice in judged])
    right = np.bincount(query, [choice.right for choice in judged])
    ((low, high),) = bootstrap_intervals([right], np.bincount(query), seed=seed)
    return SegmentPrecision(
        pairs=len(judged),
        queries=len(numbers),
        precision=float(right.sum() / len(judged)),
        low=low,
        high=high,
        chance=float(np.mean([choice.chance for choice in judged])),
        first=float(np.mean([choice.first for choice in judged])),
        reachable=float(np.mean([choice.chance > 0 for choice in judged])),
    )
