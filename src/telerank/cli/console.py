"""What the commands share in speaking to a person: consoles, progress bars, one-line errors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from telerank.types import Progress

    out: Console
    err: Console

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PATIENCE = 2.0  # seconds before a bar appears


def __getattr__(name: str) -> Console:
    """The consoles ``out`` and ``err`` of rich, which is loaded for them."""
    if name not in ("out", "err"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _console(name)


@cache
def _console(name: str) -> Console:
    from rich.console import Console

    return Console(stderr=name == "err", highlight=False, emoji=False)


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
    from rich.markup import escape

    return escape(plain(text))


def plain(text: str) -> str:
    """A text without what would steer the terminal, as in :func:`shown`."""
    return _STEERING.sub("\ufffd", text)


def write_columns(rows: Sequence[Sequence[str]]) -> None:
    """Write rows of plain text to standard output; the last column is wrapped to the terminal's width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    indent = sum(widths) + 2 * len(widths)
    room = max(get_terminal_size().columns - indent, 20)
    for row in rows:
        cells = (plain(cell).ljust(width) for cell, width in zip(row, widths, strict=False))
        text = wrap(plain(row[-1]), room, break_on_hyphens=False)
        print("  ".join((*cells, f"\n{' ' * indent}".join(text))))  # noqa: T201


def say(text: str) -> None:
    """A line on standard error as it is (see :func:`shown`); only the terminal breaks it."""
    from telerank.cli.console import err  # as an attribute of the module, which loads rich

    err.print(shown(text), soft_wrap=True)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def progress(of: int | None = None) -> Iterator[Progress]:
    """Bars on standard error for whatever takes longer than two seconds; one bar for each name.

    ``of`` is the total of what is told without one. Where standard error is no terminal there are none.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from telerank.cli.console import err

    shown = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    bars = Bars(*shown, MofNCompleteColumn(), TimeRemainingColumn(), console=err, transient=True)
    tasks: dict[str, Any] = {}
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
