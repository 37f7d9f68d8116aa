"""SMART files: records that begin with ``.I`` and a number, of fields that begin with ``.T``, ``.W``, ….

Cornell's SMART system read documents and queries so (Salton, 1971); Cranfield, CISI, MED, ADI and CACM
usually come in this form. A line before the first record (``.X`` in CISI) is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from telerank.errors import FormatError

_RECORD = re.compile(r"\.I(?:\s+(.*))?")
_FIELD = re.compile(r"\.([A-Z])\s*")
_KNOWN = "TAWBXKCN"
NUMBER = re.compile(r"0*(0|[1-9][0-9]{0,17})")
"""A number of a document or a query; the group has it without leading zeros."""


@dataclass(frozen=True)
class SmartRecord:
    """A record: the number of its first line, what follows ``.I``, and the lines of each field by letter."""

    line: int
    number: str
    fields: dict[str, list[str]]

    def text(self, field: str) -> str:
        """The text of a field, empty without it; lines are kept."""
        return "\n".join(self.fields.get(field, ())).strip()

    @property
    def id(self) -> str | None:
        """The number without leading zeros, or None if it is not a whole number."""
        match = NUMBER.fullmatch(self.number)
        return match and match[1]


def starts_smart(lines: list[str]) -> bool:
    """Whether the first of these lines, or the second, begins a record."""
    return any(_RECORD.fullmatch(line.rstrip()) for line in lines[:2])


def read_records(path: str | Path, lines: Iterator[tuple[int, str]]) -> Iterator[SmartRecord]:
    """Read the records of numbered lines; a field that comes twice continues."""
    record: SmartRecord | None = None
    held: list[str] = []
    for position, (number, line) in enumerate(lines):
        if match := _RECORD.fullmatch(line):
            if record:
                yield record
            record = SmartRecord(number, (match[1] or "").strip(), {})
        elif match := _FIELD.fullmatch(line):
            if match[1] not in _KNOWN:
                raise FormatError(path, number, f"a field of .{' .'.join(_KNOWN)}", line)
            if record:
                held = record.fields.setdefault(match[1], [])
        elif record and record.fields:
            held.append(line)
        elif record or position:
            raise FormatError(path, number, "a field (.T, .W, …)" if record else ".I and a number", line)
    if record:
        yield record
