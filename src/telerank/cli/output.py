"""How commands write results: reports, tables, plots and JSON, to files or standard output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.cli import console

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from telerank.show.report import Report
    from telerank.show.tables import Table


def write_report(report: Report, output: str, form: str | None, *, as_json: bool = False) -> None:
    """Write a report as tables or JSON; its remarks go to standard error."""
    from telerank.show.report import form_of

    for remark in report.remarks:
        console.say(remark)
    chosen = "json" if as_json else form or form_of(output)
    if chosen == "json":
        write_text(report.render(chosen), output)
    else:
        write_tables(report.tables(), output, chosen, report.title)


def write_tables(tables: Sequence[Table], output: str, form: str | None, title: str) -> None:
    """Write tables in ``form`` (default: by the suffix of the output), fitted to a terminal."""
    from telerank.show.report import form_of, render_tables
    from telerank.show.tables import render_terminal

    chosen = form or form_of(output)
    if chosen == "text" and output == "-" and console.out.is_terminal:
        for i, table in enumerate(tables):
            console.out.print(*[""] * bool(i), render_terminal(table), sep="\n")
    else:
        write_text(render_tables(tables, chosen, title), output)


def write_plot(draw: Callable[[], Figure], path: str | None) -> None:
    """Draw and save a plot if a file is named, and say where."""
    if path is not None:
        from telerank.show.plots import save_plot

        save_plot(draw(), path)
        console.say(f"plot in {path}")


def write_text(text: str, output: str) -> None:
    from telerank.verbs.judge import open_to_write

    with open_to_write(output) as file:
        file.write(text)


def write_json(value: object, output: str) -> None:
    """Write JSON; infinity and NaN become null."""
    from telerank.show.report import to_json

    write_text(to_json(value), output)


def say_run(count: str, output: str) -> None:
    """Say where a run and its record were written; a device has no record."""
    if output != "-" and Path(output).is_file():
        console.say(f"{count}; run in {output}, its settings in {output}.json")
