"""What commands print and write: plain columns, errors of one line, reports, tables, plots and JSON."""

from __future__ import annotations

import codecs
import json
import math
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from telerank.errors import shorten_message
from telerank.show.tables import escape_controls, plain

if TYPE_CHECKING:
    from rich.console import Console

    from telerank.show.report import Form
    from telerank.show.tables import Table
    from telerank.types import Location


_HEADS = ("rank", "score", "docno", "document")
_LINES = 6  # of a hit
_ARGUMENT = re.compile(r'\b([a-z_]+)=(?:True\b|…|"([^"]*)")')


@cache
def out() -> Console:
    """Standard output, for tables and styled text."""
    from rich.console import Console

    return Console(highlight=False, emoji=False)


@cache
def err() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def as_options(message: str) -> str:
    """A message of the library with options for its arguments: ``--overwrite`` for ``overwrite=True``.

    An argument of any value is written ``split=…`` there, one of a certain value ``encoding="latin-1"``.
    """

    def option(match: re.Match[str]) -> str:
        name, value = f"--{match[1].replace('_', '-')}", match[2] or ""
        quoted = value if re.fullmatch(r"[\w.-]*", value) else f'"{value}"'
        return f"{name} {quoted}" if value else name

    return _ARGUMENT.sub(option, message)


def one_line(error: BaseException) -> str:
    """The message of a user's error on one line, of bounded length."""
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return shorten_message(f"{file}{error.strerror}")
    return shorten_message(as_options(" ".join(str(error).split())))


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


def write_hits(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Write rank, score, docno and text of hits, each in at most six lines of the terminal.

    Short docnos are a column; long ones, such as the names of files, stand whole on a line of their own. Only
    a docno that is longer than six lines has more.
    """
    rank_width, score_width, docno_width = (
        max(len(plain(row[i])) for row in [_HEADS, *rows]) for i in range(3)
    )
    columns = get_terminal_size().columns
    beside = rank_width + score_width + 4
    is_column = docno_width <= columns // 4 and beside + docno_width <= columns // 2
    indent = beside + docno_width + 2 if is_column else beside
    room = max(columns - indent, 10)
    for row in [_HEADS, *rows]:
        rank, score, docno, text = map(plain, row)
        head = f"{rank.ljust(rank_width)}  {score.ljust(score_width)}  {docno.ljust(docno_width)}"
        taken = 0 if is_column else math.ceil((beside + len(docno)) / columns)
        lines = (
            wrap(text, room, max_lines=max(_LINES - taken, 1), placeholder="…", break_on_hyphens=False)
            if taken < _LINES
            else []
        )
        if is_column:
            print("  ".join((head, f"\n{' ' * indent}".join(lines))).rstrip())
        elif row is _HEADS:
            print(f"{head.rstrip()}, {text}")
        else:
            print("\n".join((head.rstrip(), *(f"{' ' * indent}{line}" for line in lines))))


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
    err().print(shown(as_options(text)), soft_wrap=True)


def write_tables(tables: Sequence[Table], output: str, form: Form | None, title: str) -> None:
    """Write tables in ``form`` (default: by the suffix of the output), fitted to a terminal."""
    from telerank.show.report import form_of, render_tables
    from telerank.show.tables import render_terminal

    chosen = form or form_of(output)
    if chosen == "text" and output == "-" and out().is_terminal:
        for i, table in enumerate(tables):
            out().print(*[""] * bool(i), render_terminal(table), sep="\n")
    else:
        write_text(render_tables(tables, chosen, title), output)


def write_text(text: str, output: str) -> None:
    from telerank.trec import open_to_write

    with open_to_write(output) as file:
        file.write(text)


def write_json(value: object, output: str) -> None:
    """Write JSON; infinity and NaN become null."""
    from telerank.show.report import to_json

    write_text(to_json(value), output)


def say_run(count: str, output: str) -> None:
    """Say where a run and its record were written; a device has no record."""
    if output != "-" and Path(output).is_file():
        say(f"{count}; run in {output}, its settings in {output}.json")
