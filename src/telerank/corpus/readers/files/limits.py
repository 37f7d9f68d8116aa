"""What reading one file may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileLimits:
    """Limits of one file; beyond them it is not read.

    Raises
    ------
    ValueError
        If a limit is not positive.
    """

    bytes: int = 256 << 20
    """Bytes of a file."""
    seconds: float = 120.0
    """Seconds that reading it may take."""
    memory: int = 4 << 30
    """Bytes of memory of the process that reads it, where the system can limit them (not on macOS)."""
    characters: int = 32 << 20
    """Characters of its text."""

    def __post_init__(self) -> None:
        if min(self.bytes, self.seconds, self.memory, self.characters) <= 0:
            raise ValueError(f"limits of a file must be positive, got {self}")
