"""Progress bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telerank.types import Progress, ProgressSetting, silent

NOTHING = "nothing is kept: the same call begins anew"
_DELAY = 2.0  # seconds before a bar appears


def unchanged(folder: str | Path) -> str:
    """What an interruption says of a folder in which nothing is written before the end."""
    return f"nothing was changed in {folder}: the same call begins anew"


def continued(folder: str | Path, what: str = "what is encoded") -> str:
    """What an interruption says of work that is kept in a folder, and continued there."""
    return f"{what} is kept in {folder}: the same call goes on from there"


@contextmanager
def show_progress(
    progress: ProgressSetting = None, total: int | None = None, *, kept: str = NOTHING
) -> Iterator[Progress]:
    """The callback itself, nothing (False), or (None) bars on standard error, one a label, after two seconds.

    ``total`` stands in for the total of a callback without one. There are no bars if standard error is not a
    terminal and this is no notebook. A KeyboardInterrupt (Ctrl-C) that ends the work is raised again, with a
    note of what is ``kept``, and how to go on.
    """
    try:
        with _show_bars(progress, total) as shown:
            yield shown
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", ()):
            interrupt.add_note(f"interrupted: {kept}")
        raise


@contextmanager
def _show_bars(progress: ProgressSetting, total: int | None) -> Iterator[Progress]:
    if callable(progress):
        yield progress
    elif progress is False or not (sys.stderr.isatty() or is_notebook()):
        yield silent
    else:
        start, tasks = time.monotonic(), dict[str, Any]()
        bars: Any = None

        def update(label: str, done: int, count: int | None) -> None:
            nonlocal bars
            if bars is None:
                if time.monotonic() - start < _DELAY:
                    return
                bars = _start_bars()
            whole = total if count is None else count
            if label not in tasks:
                tasks[label] = bars.add_task(label, total=whole)
            bars.update(tasks[label], completed=done, total=whole)

        try:
            yield update
        finally:
            if bars is not None:
                bars.stop()


def is_notebook() -> bool:
    """Whether the program runs in a notebook, whose cells show HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _start_bars() -> Any:
    """Rich, which draws the bars, is loaded when the first one appears."""
    from rich import progress
    from rich.console import Console

    columns = (
        *(progress.SpinnerColumn(), progress.TextColumn("{task.description}"), progress.BarColumn()),
        *(progress.MofNCompleteColumn(), progress.TimeRemainingColumn()),
    )
    bars = progress.Progress(*columns, console=Console(stderr=True), transient=True)
    bars.start()
    return bars
