"""What became of a recipe's system."""

from __future__ import annotations

import re
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


class Unavailable(Exception):  # noqa: N818
    """A system cannot be made here; its message says why."""


def plain(name: str) -> str:
    """A name as a file's name."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("_") or "_"
