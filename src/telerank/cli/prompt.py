"""Queries that are typed in a terminal, one after another, with the keys and the history of readline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from telerank.cli import console
from telerank.errors import TelerankError

_LEAVE, _KEPT = "exit", 1000  # what is typed to leave; lines of the history


def answer_typed(answer: Callable[[str], None], prompt: str) -> None:
    """Call ``answer`` with each line that is typed, until the end of the input (Ctrl-D) or ``exit``.

    Ctrl-C gives up the line, or the answer; an error is shown, and the next line is read.
    """
    with _history():
        while True:
            try:
                line = input(prompt).strip()
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                continue
            if line == _LEAVE:
                return
            try:
                if line:
                    answer(line)
            except KeyboardInterrupt:
                console.say("given up")
            except TelerankError as error:
                console.say(console.one_line(error))


@contextmanager
def _history() -> Iterator[None]:
    """The lines that were typed before, in the user's cache, if there is readline."""
    try:
        import readline
    except ImportError:  # not on Windows
        yield
        return
    file = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "telerank" / "queries"
    readline.set_history_length(_KEPT)
    with suppress(OSError):
        readline.read_history_file(file)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
