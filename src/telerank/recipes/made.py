"""What became of a recipe's system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.stage import Stage


@dataclass(frozen=True)
class Made:
    """A system that was made: its run, what made it in a few words, its stage unless it is a run only.

    ``seeds`` are its runs by each seed where it was trained, the first of them ``run``.
    """

    run: Path
    how: str
    stage: Stage | None = None
    seeds: tuple[Path, ...] = ()

    @property
    def runs(self) -> tuple[Path, ...]:
        return self.seeds or (self.run,)


def runs_by_seed(parts: Sequence[Made]) -> list[list[Path]]:
    """The parts' runs for each seed that they were trained with; one that was not trained is in each."""
    seeds = min((len(one.runs) for one in parts if len(one.runs) > 1), default=1)
    return [[one.runs[seed if len(one.runs) > 1 else 0] for one in parts] for seed in range(seeds)]


class Unavailable(Exception):  # noqa: N818
    """A system cannot be made here; its message says why."""


def plain(name: str) -> str:
    """A name as a file's name."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("_") or "_"
