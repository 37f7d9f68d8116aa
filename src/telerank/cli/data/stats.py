"""``telerank data stats``: statistics of collections."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from typer import Argument, Option

from telerank.cli import console, options
from telerank.cli.options import AsJson, Encoding, FormatOption, TableForm, TableOutput
from telerank.cli.runs.output import write_json, write_tables


class PlotFormat(StrEnum):
    png = "png"
    svg = "svg"
    pdf = "pdf"


class Language(StrEnum):
    french = "french"
    english = "english"


def stats(
    collections: list[str] = Argument(metavar="COLLECTION", help="Folders, files, or ir_datasets ids."),
    *,
    split: list[str] | None = Option(None, help="Only this split; may be repeated. Default: all."),
    analyzer: str = Option("standard", "--analyzer", "-a", help="Count the terms of this analyzer."),
    tokenizer: Path | None = Option(
        None, metavar="FILE", help="Count the tokens of a tokenizer.json instead."
    ),
    language: Language | None = Option(
        None, help="Language of the question words. Default: the one that fits."
    ),
    plots: Path | None = Option(None, metavar="DIR", help="A folder to save plots in."),
    plot_format: PlotFormat = Option(PlotFormat.png, help="Format of the plots."),
    form: TableForm = None,
    output: TableOutput = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Describe collections: question words, lengths in tokens, input lengths and class balance.

    Example: `telerank data stats piaf --plots plots`
    """
    from telerank.show.progress import show_progress
    from telerank.verbs.data import describe, token_counter

    count = token_counter(analyzer, tokenizer)
    reports = []
    for name in collections:
        opened = options.open_collection(name, format, encoding)
        with show_progress(total=opened.size) as progress:
            reports.append(describe(opened, count=count, splits=split, language=language, progress=progress))
        if plots is not None:
            folder = plots / opened.name if len(collections) > 1 else plots
            for file in reports[-1].save_plots(folder, format=plot_format.value):
                console.say(f"wrote {file}")
    if as_json:
        records = [report.record() for report in reports]
        write_json(records if len(records) > 1 else records[0], output)
    else:
        write_tables([table for report in reports for table in report.tables()], output, form, "Statistics")
