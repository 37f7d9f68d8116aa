"""Standard input, output and error whose errors are reported like those of any file."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from telerank.errors import TelerankError

_NAMES = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}


class StandardStream(io.FileIO):
    """A standard stream, by its number; an error raises TelerankError.

    After the first error what is written is lost, and so nothing is reported at the end of the process.
    Errors of standard error are never raised.
    """

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, "w" if number else "r", closefd=False)
        self._label, self._is_lost = _NAMES[name], name == "stderr"

    def readinto(self, buffer: Any) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise TelerankError(f"{self._label}: {error.strerror}") from error

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            if self._is_lost:
                return len(content)
            self._is_lost = True
            raise TelerankError(f"{self._label}: {error.strerror}") from error


def open_streams() -> None:
    """Replace the standard streams of this process by :class:`StandardStream`, those that are closed, too.

    Streams that were replaced already, as by tests, are left.
    """
    for number, name in enumerate(_NAMES):
        stream = getattr(sys, name)
        if stream is None:  # it is closed: using it must fail, and no other file may get its number
            os.open(os.devnull, os.O_RDONLY if number else os.O_WRONLY)
        elif stream is not getattr(sys, f"__{name}__"):
            continue
        raw = StandardStream(number, name)
        buffer = io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        own: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}
        if stream is not None:
            own = {
                "encoding": stream.encoding,
                "errors": stream.errors,
                "line_buffering": stream.line_buffering,
            }
        setattr(sys, name, io.TextIOWrapper(buffer, **own))
