"""Consoles, plain columns and one-line errors."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Sequence
from functools import cache
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from telerank.errors import shorten_message
from telerank.show.tables import escape_controls, plain

if TYPE_CHECKING:
    from rich.console import Console

    from telerank.types import Location

    out: Console
    err: Console


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
    """The message of a user's error on one line, of bounded length."""
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return shorten_message(f"{file}{error.strerror}")
    return shorten_message(" ".join(str(error).split()))


def shown(text: str) -> str:
    """Escape a text as rich markup, without control characters of the terminal."""
    from rich.markup import escape

    return escape(plain(text))


def write_columns(rows: Sequence[Sequence[str]]) -> None:
    """Write rows of plain text to standard output; the last column is wrapped to the terminal's width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    indent = sum(widths) + 2 * len(widths)
    room = max(get_terminal_size().columns - indent, 20)
    for row in rows:
        cells = (plain(cell).ljust(width) for cell, width in zip(row, widths, strict=False))
        text = wrap(plain(row[-1]), room, break_on_hyphens=False)
        print("  ".join((*cells, f"\n{' ' * indent}".join(text))))


def name_location(location: Location | None, docno: str) -> str:
    """Where a text stands, in brackets with a blank before; empty if the docno says as much."""
    return f" [{location}]" if location is not None and str(location) != docno else ""


def print_json(value: object) -> None:
    """Print JSON on one line, for machines.

    Control characters of the terminal are escaped, and what the output's encoding lacks.
    """
    unicode = codecs.lookup(sys.stdout.encoding).name.startswith("utf")
    text = json.dumps(value, ensure_ascii=not unicode)
    print(escape_controls(text))


def say(text: str) -> None:
    """Print a line on standard error, escaped (see :func:`shown`) and not wrapped."""
    from telerank.cli.console import err  # as an attribute of the module, which loads rich

    err.print(shown(text), soft_wrap=True)
