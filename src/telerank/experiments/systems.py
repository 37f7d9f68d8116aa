"""The systems of an experiment: a run for each seed and, unless a system is a run alone, its stage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from telerank.stage import Stage


@dataclass(frozen=True)
class SystemRuns:
    """What a system is in a few words, its runs (one for each seed, if something is trained), its stage."""

    name: str
    about: str
    runs: tuple[Path, ...]
    stage: Stage | None = None
