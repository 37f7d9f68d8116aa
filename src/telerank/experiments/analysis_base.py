"""The settings that every analysis of an experiment has."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from pydantic import Field

from telerank.records import Section

Published: TypeAlias = dict[str, dict[str, float | None]]
"""``published[row][column]``: the values that a paper prints; null if a value cannot be read."""


class AnalysisBase(Section):
    """What every analysis has."""

    title: str = ""
    """The caption of its first table, and its heading in the report."""
    about: str = ""
    """What a reader must know of it, in the report."""
    systems: tuple[str, ...] | None = None
    """The systems that are analysed; None: all."""
    published: dict[str, Published] = Field(default_factory=dict)
    """The values that a paper prints, by data set; without them those of the experiment."""
    needs_systems: ClassVar[bool] = True
    """Whether the analysis is of systems, and not available without one."""

    @property
    def system_names(self) -> tuple[str, ...]:
        """The systems of the experiment that the settings name."""
        return self.systems or ()
