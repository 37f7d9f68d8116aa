"""Lines that do not follow their format, but that trec_eval reads: warnings, or refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path

from telerank.errors import FormatError, FormatWarning


@dataclass
class Deviations:
    """The deviations of a file by kind: the first line and how many there are; refused if ``strict``."""

    path: str | Path
    strict: bool
    _lines: dict[str, tuple[int, int]] = field(default_factory=dict)

    def accept(self, line: int, reading: str, expected: str, got: str | None = None) -> None:
        """Note that a line is read as ``reading`` says; if strict, raise FormatError."""
        if self.strict:
            raise FormatError(self.path, line, expected, got)
        first, count = self._lines.get(reading, (line, 0))
        self._lines[reading] = first, count + 1

    def warn(self) -> None:
        """A FormatWarning for each kind."""
        for reading, (first, count) in self._lines.items():
            more = f" (and {count - 1:,} more)" if count > 1 else ""
            warnings.warn(f"{self.path}:{first}: {reading}{more}", FormatWarning, stacklevel=2)
