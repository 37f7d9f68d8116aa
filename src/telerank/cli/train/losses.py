"""What the commands of ``telerank train`` print while they train."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from telerank.cli import console

if TYPE_CHECKING:
    from pathlib import Path

    from telerank.training.log import Record, Report

_INTERVAL = 5.0  # seconds between two lines of losses


def lines() -> Report:
    """Print a record of the log on standard error every few seconds, and each dev measure."""
    last = 0.0

    def show(record: Record) -> None:
        nonlocal last
        now = time.monotonic()
        if record.dev is None and now - last < _INTERVAL:
            return
        last = now
        dev = "" if record.dev is None else f", dev {record.dev:.4f}"
        update = f"update {record.step:,}: loss {record.loss:.4f}, rate {record.learning_rate:.3g}{dev}"
        console.err.print(f"{update}, {_clock(record.seconds)}, {_clock(record.remaining)} to go")

    return show


def say_trained(model: Path) -> None:
    """Print the model's folder, once if several processes have trained it."""
    from telerank.verbs.train import is_first_process

    if is_first_process():
        console.err.print(f"trained {model}")


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
