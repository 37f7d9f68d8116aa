"""How a re-ranker learns from segments of documents, and how documents are ranked by their segments."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from telerank.errors import ModelError
from telerank.records import Section
from telerank.segments.settings import Aggregate, SegmentSettings, named_segments


class SegmentTraining(Section):
    """Learn from segments: each has the label of its document."""

    select: Literal["first", "all", "gold", "random", "best"]
    """`first`: the first segment of each document (FirstP and MaxP). `all`: the first always, another with
    the probability `others` (Dai and Callan 2019). `gold`: the segment with the known relevant passage, of
    other documents one at random (GoldP). `random`: one at random. `best`: BeST, the segment that a model
    chooses, in iterations."""
    window: SegmentSettings = SegmentSettings(sentences=True)
    """How documents are cut: a name (`best`, `dai-callan`, `parade`, `piaf`, `whole`), or the settings."""
    leading: PositiveInt | None = 4
    """Learn only from this many leading segments (BeST: up to four); `null`: from all. A known passage may be
    in any. All segments are read where documents are ranked, unless `aggregate` is `first`."""
    random_lengths: bool = False
    """Draw the lengths of the segments that are learned from, so that a length says nothing (BeST). They
    are a function of the seed of the data, the docno and these settings."""
    others: float = Field(default=0.1, gt=0, le=1)
    """Probability of each segment but the first (select `all`)."""
    aggregate: Literal["first", "max", "mean", "sum"] = "max"
    """The score of a document of dev and test: that of its first segment (FirstP), or the maximum, mean or
    sum over all of them."""
    answers: str | None = None
    """A file with known relevant passages as answers, of the training split and the dev split; by default the
    answers of the collection. `gold` needs them; `best` measures its selections by them if there are any."""
    iterations: PositiveInt = 4
    """Iterations of `best`; the dev measure decides which one is the model."""
    patience: PositiveInt | None = None
    """Stop after this many iterations without a better dev measure; by default all are trained."""

    @field_validator("window", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return named_segments(value)
        except ModelError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="after")
    def _fits_together(self) -> SegmentTraining:
        if self.window.first is not None or self.window.seed is not None:
            raise ValueError("window.first and window.seed: set leading and random_lengths instead")
        if self.random_lengths and self.window.stride is not None:
            raise ValueError("segments of random lengths do not overlap: no window.stride")
        defaults = type(self).model_fields
        for name, select in (("others", "all"), ("iterations", "best"), ("patience", "best")):
            if self.select != select and getattr(self, name) != defaults[name].default:
                raise ValueError(f"{name} goes with select {select}, not with {self.select}")
        return self

    def learned(self, seed: int, *, whole: bool = False) -> SegmentSettings:
        """The segments to learn from; with ``whole`` all of a document, of which the leading ones are a part.

        ``seed`` is that of the data.
        """
        first = None if whole else 1 if self.select == "first" else self.leading
        return self.window.model_copy(update={"first": first, "seed": seed if self.random_lengths else None})

    @property
    def ranked(self) -> SegmentSettings:
        """The segments that decide the score of a document of dev or test."""
        return self.window.model_copy(update={"first": self.score.reads})

    @property
    def score(self) -> Aggregate:
        """The score of a document from those of its segments."""
        return Aggregate(self.aggregate)
