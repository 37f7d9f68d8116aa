"""What came of an experiment on one collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.experiments.analyses.bench import AnalysisResult
from telerank.experiments.provenance import machine
from telerank.experiments.schema import DataSpec, Experiment

if TYPE_CHECKING:
    from telerank.experiments.systems import SystemRuns


@dataclass(frozen=True, eq=False)
class ExperimentOutcome:
    """The results of every analysis; ``lacking`` says why systems are missing.

    ``size`` is ``full size`` or ``small copy`` of a file that has both. ``counts`` are numbers of things by
    name: documents, queries. The files are in ``folder``.
    """

    spec: Experiment
    data: DataSpec
    name_of_data: str
    size: str
    counts: Mapping[str, int]
    systems: Mapping[str, SystemRuns]
    lacking: Mapping[str, str]
    results: tuple[AnalysisResult, ...]
    folder: Path

    @property
    def title(self) -> str:
        """The title of the experiment, and the size that was run."""
        return f"{self.spec.title} ({self.size})" if self.size else self.spec.title

    @property
    def protocol(self) -> tuple[str, ...]:
        """What was measured on which data, and what is missing."""
        counts = ", ".join(f"{count:,} {what}" for what, count in self.counts.items())
        about = f": {self.data.about}" if self.data.about else ""
        split = f", split {self.data.split}" if self.data.split else ""
        notes = [
            f"Measured on {self.name_of_data}{about} ({counts}{split}{'; ' if self.size else ''}{self.size})."
        ]
        if self.spec.published and not self.data.paper:
            notes.append(f"The paper's values ({self.spec.source}) are of other data: a rough guide.")
        notes += [f"{name}: {system.about}." for name, system in self.systems.items() if system.about != name]
        for reason in dict.fromkeys(self.lacking.values()):
            names = [name for name, why in self.lacking.items() if why == reason]
            notes.append(f"Not measured: {', '.join(names)} ({reason}).")
        return tuple(notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the tables must know."""
        results = [note for result in self.results for note in result.notes]
        return (*self.protocol, *results, f"Machine: {machine()}.")
