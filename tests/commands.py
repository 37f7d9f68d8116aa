"""Commands as they are typed, in this process."""

from __future__ import annotations

import shlex
import sys
from io import BytesIO, TextIOWrapper
from typing import NamedTuple
from unittest.mock import patch

from telerank.cli.main import main


class Printed(NamedTuple):
    status: int
    stdout: str
    stderr: str


def typed(command: str, *words: object, stdin: bytes = b"") -> Printed:
    """How a command ends; ``words`` follow those of ``command`` as they are."""
    streams = [TextIOWrapper(BytesIO(content), encoding="utf-8") for content in (stdin, b"", b"")]
    argv, status = ["telerank", *shlex.split(command), *map(str, words)], 0
    names = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
    with patch.multiple(sys, argv=argv, **names):
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    for stream in streams[1:]:
        stream.flush()
    return Printed(status, *(stream.buffer.getvalue().decode() for stream in streams[1:]))


def ok(command: str, *words: object, stdin: bytes = b"") -> Printed:
    """How a command ends that succeeds."""
    printed = typed(command, *words, stdin=stdin)
    assert printed.status == 0, printed
    return printed


def refusal(command: str, *words: object, stdin: bytes = b"") -> str:
    """The line of a command that is refused; at most four notes may follow it."""
    printed = typed(command, *words, stdin=stdin)
    assert (printed.status, printed.stdout) == (2, ""), printed
    line, *notes = printed.stderr.splitlines()
    assert line.startswith("telerank: ")
    assert len(notes) <= 4
    assert all(note.startswith("  ") for note in notes)
    return line
