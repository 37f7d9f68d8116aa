"""Recognising a format: the conditions that a file meets, and the message if it has no known format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from telerank.errors import FormatError, TelerankError

Conditions: TypeAlias = Iterator[tuple[object, str]]
"""Whether each condition of a format holds (a truth value), and what to say if not.

A condition without words is a mark of the format that a file need not have: it only makes the format nearer.
"""
Failure = TypeVar("Failure", bound=TelerankError)
_LIST = "all formats: telerank data ls"


@dataclass(frozen=True, slots=True)
class FormatFit:
    """How near a file came to a format: the number of conditions met, and the first that is not met."""

    name: str
    met: int
    mismatch: str


def holds(conditions: Conditions) -> bool:
    """Whether a file has a format; conditions after the first that is not met are not examined."""
    return all(met for met, mismatch in conditions if mismatch)


def measure_fit(name: str, conditions: Conditions) -> FormatFit:
    """Examine all conditions of a format."""
    results = [(bool(met), mismatch) for met, mismatch in conditions]
    mismatches = (mismatch for met, mismatch in results if mismatch and not met)
    return FormatFit(name, sum(met for met, _ in results), next(mismatches, ""))


def add_nearest(error: Failure, fits: Iterable[FormatFit]) -> Failure:
    """Add notes to an error: the two formats that came nearest, why each failed, and how to list all."""
    for fit in sorted(fits, key=lambda fit: -fit.met)[:2]:
        error.add_note(f"not {fit.name}: {fit.mismatch}")
    error.add_note(_LIST)
    return error


def recognise_line(
    path: str | Path, number: int, kind: str, line: str, forms: Mapping[str, Conditions]
) -> str:
    """The first of several formats that the first line of a file has, or FormatError."""
    fits = [measure_fit(name, conditions) for name, conditions in forms.items()]
    name = next((fit.name for fit in fits if not fit.mismatch), None)
    if name is None:
        raise add_nearest(FormatError(path, number, f"{kind} in a known format", line), fits)
    return name
