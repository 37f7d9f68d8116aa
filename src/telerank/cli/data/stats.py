"""``telerank data stats``: statistics of collections."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from telerank.cli import console, options
from telerank.cli.derive import derive
from telerank.cli.options import Format, ReportOptions, Texts
from telerank.cli.runs.output import write_json, write_tables
from telerank.parameters import Flags, Help

PlotFormat = Literal["png", "svg", "pdf"]
Language = Literal["french", "english"]


@derive
def stats(
    collections: Annotated[list[str], Flags("COLLECTION"), Help("Folders, files, or ir_datasets ids.")],
    *,
    split: Annotated[list[str] | None, Help("Only this split; may be repeated. Default: all.")] = None,
    analyzer: Annotated[str, Flags("-a"), Help("Count the terms of this analyzer.")] = "standard",
    tokenizer: Annotated[
        Path | None, Flags("--tokenizer", "FILE"), Help("Count the tokens of a tokenizer.json instead.")
    ] = None,
    language: Annotated[
        Language | None, Help("Language of the question words. Default: the one that fits.")
    ] = None,
    plots: Annotated[Path | None, Flags("--plots", "DIR"), Help("A folder to save plots in.")] = None,
    plot_format: Annotated[PlotFormat, Help("Format of the plots.")] = "png",
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    report: ReportOptions,
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
            for file in reports[-1].save_plots(folder, format=plot_format):
                console.say(f"wrote {file}")
    if report.as_json:
        records = [each.record() for each in reports]
        write_json(records if len(records) > 1 else records[0], report.output)
    else:
        write_tables(
            [table for each in reports for table in each.tables()], report.output, report.form, "Statistics"
        )
