"""Progress bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from telerank.types import Progress, ProgressSetting, silent

_DELAY = 2.0  # seconds before a bar appears


@contextmanager
def show_progress(progress: ProgressSetting = None, total: int | None = None) -> Iterator[Progress]:
    """The callback itself, nothing (False), or (None) bars on standard error, one a label, after two seconds.

    ``total`` stands in for the total of a callback without one. There are no bars if standard error is not a
    terminal.
    """
    if callable(progress):
        yield progress
    elif progress is False or not sys.stderr.isatty():
        yield silent
    else:
        bars = _Bars(total)
        try:
            yield bars.update
        finally:
            bars.stop()


class _Bars:
    """Rich, which draws the bars, is loaded when the first one appears."""

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.start = time.monotonic()
        self.shown: Any = None
        self.tasks: dict[str, Any] = {}

    def update(self, label: str, done: int, total: int | None) -> None:
        if self.shown is None:
            if time.monotonic() - self.start < _DELAY:
                return
            from rich import progress
            from rich.console import Console

            columns = (
                *(progress.SpinnerColumn(), progress.TextColumn("{task.description}"), progress.BarColumn()),
                *(progress.MofNCompleteColumn(), progress.TimeRemainingColumn()),
            )
            self.shown = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self.shown.start()
        whole = self.total if total is None else total
        if label not in self.tasks:
            self.tasks[label] = self.shown.add_task(label, total=whole)
        self.shown.update(self.tasks[label], completed=done, total=whole)

    def stop(self) -> None:
        if self.shown is not None:
            self.shown.stop()
