"""How documents are cut into segments, with the settings of papers by name, and how scores are aggregated.

The score of a document is a weighted sum of the scores of its segments, whose weights depend on the ranks:

=========  ==========================================================================================
``first``  the first segment's score: FirstP (Dai and Callan 2019)
``max``    the best segment's: MaxP
``mean``   the mean over all segments (the sum in Piaf's equation 21)
``sum``    the sum: SumP
``kmax``   the mean of the ``k`` best; of all, if there are fewer
``best``   the sum of the best, times ``weights``: the sentences of Birch (Piaf report, equation 10)
=========  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, ValidationError, model_validator

from telerank.errors import ArgumentError, ModelError, known_names
from telerank.fusion.lists import sigmoid
from telerank.records import Section, describe_error
from telerank.types import Scores


class SegmentSettings(Section):
    """Windows over the text of a document; the next one starts where one ends, or after ``stride``.

    A window is shorter than ``length`` where the model cannot read as much beside the longest query and the
    title. No token between two windows is left out: where a window ends before ``stride``, the next starts
    there.
    """

    length: int | None = Field(default=None, ge=1)
    """Length of a segment without its title, in ``unit``; None: as long as always fits."""
    stride: int | None = Field(default=None, ge=1)
    """From the start of a segment to that of the next, in ``unit``; None: segments do not overlap."""
    unit: Literal["tokens", "words"] = "tokens"
    """What ``length`` and ``stride`` count: the model's own tokens, or words between blanks."""
    sentences: bool = False
    """Segments end at the ends of sentences; a sentence that is longer than fits is split."""
    title: bool = True
    """Each segment begins with the document's title."""
    first: int | None = Field(default=None, ge=1)
    """Keep only this many leading segments; None keeps all."""
    seed: int | None = Field(default=None, ge=0)
    """Draw the length of each segment, from a quarter of ``length`` to all of it; None: do not."""

    @model_validator(mode="after")
    def _check(self) -> SegmentSettings:
        if self.stride is not None and self.sentences:
            raise ArgumentError("segments that end with sentences do not overlap: no stride")
        if self.stride is not None and self.seed is not None:
            raise ArgumentError("segments of random lengths do not overlap: no stride")
        if self.stride is not None and self.length is not None and self.stride > self.length:
            raise ArgumentError(
                f"a stride of {self.stride} leaves out text between segments of {self.length}"
            )
        return self


# Segments as papers cut them: BeST (section 4; in training also ``first: 4`` and a seed), Dai and Callan
# (2019: 150 words with a stride of 75), PARADE (225 tokens, stride 200), Piaf (section 7.1: 380 tokens, 120
# of them overlap; of a title nothing is said, and its ranker learns without), Birch (a sentence each).
# ``whole`` are the longest that fit.
NAMED: Mapping[str, SegmentSettings] = {
    "whole": SegmentSettings(),
    "best": SegmentSettings(sentences=True),
    "birch": SegmentSettings(length=1, sentences=True, title=False),
    "dai-callan": SegmentSettings(length=150, stride=75, unit="words"),
    "parade": SegmentSettings(length=225, stride=200),
    "piaf": SegmentSettings(length=380, stride=260, title=False),
}


def named_segments(name: str) -> SegmentSettings:
    """The settings of that name.

    Raises
    ------
    ModelError
        If there are none.
    """
    if name not in NAMED:
        raise ModelError(f"no segments are called {name!r}; {known_names(NAMED, name)}")
    return NAMED[name]


def window_segments(window: str | int, **changes: Any) -> SegmentSettings:
    """The settings of that name, or of segments of so many tokens, with ``changes`` of them.

    Raises
    ------
    ModelError
        If there are none of that name, or the settings do not fit together.
    """
    named = SegmentSettings(length=window) if isinstance(window, int) else named_segments(window)
    try:
        return SegmentSettings(**{**named.model_dump(exclude_defaults=True), **changes})
    except ValidationError as error:
        raise ModelError(f"segments: expected {describe_error(error)}") from error


# What is aggregated: a model's logits, or their sigmoids.
Unit: TypeAlias = Literal["logit", "probability"]


_AGGREGATES = ("first", "max", "mean", "sum", "kmax", "best")


@dataclass(frozen=True)
class Aggregate:
    """One of the table above; a value.

    Raises
    ------
    ValueError
        If there is no such aggregate, k is not a whole number of at least 1, or a weight is not finite.
    """

    kind: str
    k: int = 1
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _AGGREGATES:
            raise ArgumentError(f"no aggregate is called {self.kind!r}; there are: {', '.join(_AGGREGATES)}")
        if self.k < 1:
            raise ArgumentError(f"k must be a whole number of at least 1, got {self.k!r}")
        if (self.kind == "best") != bool(self.weights) or not all(map(math.isfinite, self.weights)):
            raise ArgumentError(
                f"{self.kind!r}: expected a finite weight for each of the best, got {self.weights}"
            )

    def __call__(self, scores: Scores) -> float:
        """The score of a document from those of its segments, (segments,); at least one."""
        return math.fsum((self.weigh(scores) * scores).tolist())  # rounded once: in any order the same

    def weigh(self, scores: Scores) -> Scores:
        """The weight of each segment's score in that of the document, (segments,)."""
        count = len(scores)
        ranks = np.empty(count, np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(count)  # of equal scores the first is best
        if self.kind == "first":
            return np.asarray(np.arange(count) == 0, np.float64)
        if self.kind == "best":
            weights = np.zeros(max(count, len(self.weights)))
            weights[: len(self.weights)] = self.weights
            return np.asarray(weights[ranks], np.float64)
        best = {"max": 1, "kmax": min(self.k, count)}.get(self.kind, count)
        return np.asarray((ranks < best) / (1 if self.kind == "sum" else best))

    @property
    def reads(self) -> int | None:
        """How many leading segments decide the score; None: all of them."""
        return 1 if self.kind == "first" else None


def convert(logits: Scores, unit: Unit) -> Scores:
    """The logits, or their sigmoids (Piaf report, equation 15)."""
    return logits if unit == "logit" else sigmoid(logits)
