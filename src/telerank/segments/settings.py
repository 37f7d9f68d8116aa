"""How documents are cut into segments, with the settings of papers by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from telerank.errors import ModelError
from telerank.records import Section, describe_error


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
            raise ValueError("segments that end with sentences do not overlap: no stride")
        if self.stride is not None and self.seed is not None:
            raise ValueError("segments of random lengths do not overlap: no stride")
        if self.stride is not None and self.length is not None and self.stride > self.length:
            raise ValueError(f"a stride of {self.stride} leaves out text between segments of {self.length}")
        return self


NAMED: Mapping[str, SegmentSettings] = {
    "whole": SegmentSettings(),
    "best": SegmentSettings(sentences=True),
    "birch": SegmentSettings(length=1, sentences=True, title=False),
    "dai-callan": SegmentSettings(length=150, stride=75, unit="words"),
    "parade": SegmentSettings(length=225, stride=200),
    "piaf": SegmentSettings(length=380, stride=260),
}
"""Segments as papers cut them: BeST (section 4; in training also ``first: 4`` and a seed), Dai and Callan
(2019: 150 words with a stride of 75), PARADE (225 tokens, stride 200), Piaf (section 7.1: 380 tokens, 120 of
them overlap), Birch (a sentence each). ``whole`` are the longest that fit."""


def named_segments(name: str) -> SegmentSettings:
    """The settings of that name.

    Raises
    ------
    ModelError
        If there are none.
    """
    if name not in NAMED:
        raise ModelError(f"no segments are called {name!r}; there are: {', '.join(NAMED)}")
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
