"""Progress bars on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from telerank.types import Progress

_DELAY = 2.0  # seconds before a bar appears


@contextmanager
def show_progress(progress: Progress | None = None, total: int | None = None) -> Iterator[Progress]:
    """The callback itself, or (None) bars on standard error, one for each label, after two seconds.

    ``total`` stands in for the total of a callback without one. There are no bars if standard error is not a
    terminal.
    """
    if progress is not None:
        yield progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    bars = Bars(*columns, MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True)
    tasks: dict[str, TaskID] = {}
    began = time.monotonic()

    def update(label: str, done: int, whole: int | None) -> None:
        whole = total if whole is None else whole
        if label not in tasks:
            tasks[label] = bars.add_task(label, total=whole)
        bars.update(tasks[label], completed=done, total=whole)
        if console.is_terminal and not bars.live.is_started and time.monotonic() - began > _DELAY:
            bars.start()

    try:
        yield update
    finally:
        if bars.live.is_started:  # otherwise stopping prints an empty line
            bars.stop()
