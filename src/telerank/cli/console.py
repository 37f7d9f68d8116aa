"""What the commands share in speaking to a person: consoles, progress bars, one-line errors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from telerank.errors import TelerankError
from telerank.types import Progress

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

USER_ERRORS = (TelerankError, OSError, UnicodeError)
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PATIENCE = 2.0  # seconds before a bar appears


def one_line(error: BaseException) -> str:
    """The message of an error that its user can mend, on one line."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return " ".join(str(error).split())


def shown(text: str) -> str:
    """Markup that shows a text as it is, but for what would steer the terminal instead: that is \ufffd.

    Escape sequences and other control characters, marks of writing direction, lone surrogates.
    """
    return escape(_STEERING.sub("\ufffd", text))


def say(text: str) -> None:
    """A line on standard error as it is (see :func:`shown`); only the terminal breaks it."""
    err.print(shown(text), soft_wrap=True)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def progress(of: int | None = None) -> Iterator[Progress]:
    """Bars on standard error for whatever takes longer than two seconds; one bar for each name.

    ``of`` is the total of what is told without one. Where standard error is no terminal there are none.
    """
    shown = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    bars = Bars(*shown, MofNCompleteColumn(), TimeRemainingColumn(), console=err, transient=True)
    tasks: dict[str, TaskID] = {}
    began = time.monotonic()

    def tell(what: str, done: int, total: int | None) -> None:
        whole = of if total is None else total
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=whole)
        bars.update(tasks[what], completed=done, total=whole)
        if err.is_terminal and not bars.live.is_started and time.monotonic() - began > _PATIENCE:
            bars.start()

    try:
        yield tell
    finally:
        if bars.live.is_started:  # else stopping prints an empty line
            bars.stop()
