"""What commands that train say while they do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from telerank.cli import console

if TYPE_CHECKING:
    from pathlib import Path

    from telerank.training.log import Record, Report

_BETWEEN = 5.0  # seconds between two lines of losses


def lines() -> Report:
    """A line of the log on standard error every few seconds, and wherever the dev measure was taken."""
    last = [0.0]

    def show(record: Record) -> None:
        now = time.monotonic()
        if record.dev is None and now - last[0] < _BETWEEN:
            return
        last[0] = now
        dev = "" if record.dev is None else f", dev {record.dev:.4f}"
        told = f"update {record.step:,}: loss {record.loss:.4f}, rate {record.learning_rate:.3g}{dev}"
        console.err.print(f"{told}, {_clock(record.seconds)}, {_clock(record.remaining)} to go")

    return show


def say_trained(model: Path) -> None:
    """Once, where several processes have trained it."""
    from telerank.training.parallel import is_first_process

    if is_first_process():
        console.err.print(f"trained {model}")


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
