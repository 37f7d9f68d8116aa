"""Formats of files: what each is called, how it is recognised, what reads it, and why a file has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from telerank.errors import FormatError, TelerankError

Conditions: TypeAlias = Iterable[tuple[object, str]]
"""Whether each condition of a format holds (a truth value), and what to say if not.

A condition without words is a mark of the format that a file need not have: it only makes the format nearer.
"""
Failure = TypeVar("Failure", bound=TelerankError)
Examined = TypeVar("Examined")
Records = TypeVar("Records")
_LIST = "all formats: telerank data ls"


@dataclass(frozen=True)
class Format(Generic[Examined, Records]):
    """A format of collections, topics or qrels: a reader is such a record, and a line in a table of formats.

    ``conditions`` examines the path of a collection, of which it reads names and the beginning of files only,
    or the first line of topics or qrels. ``read`` takes what its table says. ``kinds`` are the kinds of files
    of which a folder may have several, so that one has to be named:
    ``smart(documents=MED.ALL, judgments=MED.REL)``; ``read`` takes such names by their kinds.
    """

    name: str
    conditions: Callable[[Examined], Conditions]
    read: Callable[..., Records]
    description: str
    kinds: tuple[str, ...] = ()

    def recognises(self, examined: Examined) -> bool:
        """Whether it has this format; conditions after the first that is not met are not examined."""
        return holds(self.conditions(examined))


def holds(conditions: Conditions) -> bool:
    """Whether all conditions are met that a format must meet."""
    return all(met for met, mismatch in conditions if mismatch)


def add_nearest(error: Failure, formats: Iterable[Format[Examined, Records]], examined: Examined) -> Failure:
    """Add notes to an error: the two formats that came nearest, why each failed, and how to list all."""
    fits: list[tuple[int, str]] = []
    for form in formats:
        results = [(bool(met), mismatch) for met, mismatch in form.conditions(examined)]
        mismatch = next((mismatch for met, mismatch in results if mismatch and not met), "")
        fits.append((sum(met for met, _ in results), f"not {form.name}: {mismatch}"))
    for _, note in sorted(fits, key=lambda fit: -fit[0])[:2]:
        error.add_note(note)
    error.add_note(_LIST)
    return error


def recognise_line(
    path: str | Path, number: int, kind: str, line: Examined, formats: Iterable[Format[Examined, Records]]
) -> Format[Examined, Records]:
    """The first of several formats that the first line of a file has, or FormatError."""
    form = next((form for form in formats if form.recognises(line)), None)
    if form is None:
        got = line.decode(errors="replace") if isinstance(line, bytes) else str(line)
        raise add_nearest(FormatError(path, number, f"{kind} in a known format", got), formats, line)
    return form
