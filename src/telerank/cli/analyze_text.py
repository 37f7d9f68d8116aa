"""``telerank analyze-text``: show the output of each step of an analyzer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from rich.table import Column, Table
from rich.text import Text

from telerank.cli import console
from telerank.cli.commands import derive
from telerank.parameters import AnalyzerName, Flags, Help

if TYPE_CHECKING:
    from telerank.text import Analyzer


@derive
def analyze_text(
    texts: Annotated[list[str], Flags("TEXT"), Help("Texts; `-` reads lines from standard input.")],
    *,
    analyzer: AnalyzerName = "standard",
    as_json: Annotated[bool, Flags("--json"), Help("Print one JSON object for each text.")] = False,
) -> None:
    """Show the output of each step of an analyzer for a text.

    Example: `telerank analyze-text --analyzer french "L'État d'aujourd'hui"`
    """
    from telerank.text import Analyzer

    chosen = Analyzer.parse(analyzer)
    if not as_json:
        console.out().print(Text(str(chosen), style="bold"), soft_wrap=True)
    for text in _read(texts):
        if as_json:
            steps = [{"step": step, "output": output} for step, output in chosen.steps(text)]
            record = {"text": text, "analyzer": str(chosen), "steps": steps, "terms": chosen(text)}
            console.print_json(record)
        else:
            console.out().print(_table(chosen, text))


def _read(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for line in sys.stdin if text == "-" else [text]:
            # bytes that are not UTF-8 arrive as lone surrogates, which cannot be printed
            yield line.rstrip("\r\n").encode("utf-8", "backslashreplace").decode()


def _table(analyzer: Analyzer, text: str) -> Table:
    """A table with one row for each step; new output is highlighted."""
    from telerank.text.steps import TEXT_STEPS

    counts = Column("tokens", justify="right")
    table = Table(Column("step", no_wrap=True), counts, Column("output", overflow="fold"))
    table.add_row("", "", Text(text))
    before = [text]
    for step, output in analyzer.steps(text):
        shown = Text(" · ").join(Text(part, style="" if part in before else "green") for part in output)
        table.add_row(step, "" if step in TEXT_STEPS else str(len(output)), shown)
        before = output
    return table
