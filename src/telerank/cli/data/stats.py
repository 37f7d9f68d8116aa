"""``telerank data stats``: statistics of collections."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table
from typer import Argument, Option

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption

if TYPE_CHECKING:
    from telerank.corpus.statistics import CollectionStatistics, Lengths

_BAR = 40  # cells of the longest bar
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")
_EXAMPLE = 44  # characters of a question


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
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Describe collections: question words, lengths in tokens, input lengths and class balance.

    Example: `telerank data stats piaf --plots plots`
    """
    import telerank as tr
    from telerank.show.progress import show_progress
    from telerank.verbs.data import describe, token_counter

    count = token_counter(analyzer, tokenizer)
    records = []
    for name in collections:
        opened = tr.collection(name, format=format, encoding=encoding)
        with show_progress(total=opened.size) as progress:
            statistics = describe(opened, count=count, splits=split, language=language, progress=progress)
        records.append(statistics.to_dict())
        if not as_json:
            _show(statistics)
        if plots is not None:
            folder = plots / opened.name if len(collections) > 1 else plots
            for file in statistics.save_plots(folder, format=plot_format.value):
                console.say(f"wrote {file}")
    if as_json:
        console.print_json(records if len(records) > 1 else records[0])


def _show(statistics: CollectionStatistics) -> None:
    splits = escape(", ".join(statistics.splits)) or "none"
    console.out.print(f"[bold]{escape(statistics.name)}[/]  splits: {splits}")
    console.out.print(_lengths(statistics))
    questions = statistics.questions
    if questions.total:
        console.out.print(
            f"{statistics.unique_questions:,} of {questions.total:,} questions differ in their words"
        )
        console.out.print(_question_words(statistics))
        console.out.print(_histogram(questions, "questions"))
    if statistics.documents.total:
        console.out.print(_histogram(statistics.documents, "documents"))
    if statistics.inputs.total:
        console.out.print(_input_lengths(statistics))
    pairs = statistics.positives + statistics.negatives
    if pairs:
        share = 100 * statistics.positives / pairs
        relevant = f"{statistics.positives:,} relevant ({share:.1f} %), {statistics.negatives:,} not"
        console.out.print(f"{pairs:,} pairs of a question and a document: {relevant}")
    notes = [f"{name.replace('_', ' ')} {count:,}" for name, count in statistics.notes.items() if count]
    if notes:
        console.out.print(f"notes of the reader: {escape(', '.join(notes))}", soft_wrap=True)


def _lengths(statistics: CollectionStatistics) -> Table:
    from telerank.verbs.data import QUANTILES

    numbers = (Column(name, justify="right") for name in ("count", "mean", *QUANTILES))
    table = Table("", *numbers, title="lengths in tokens", title_justify="left")
    for name in ("documents", "questions", "inputs"):
        lengths: Lengths = getattr(statistics, name)
        if lengths.total:
            quantiles = (f"{length:,}" for length in lengths.quantiles().values())
            table.add_row(name, f"{lengths.total:,}", f"{lengths.mean:,.1f}", *quantiles)
    return table


def _question_words(statistics: CollectionStatistics) -> Table:
    numbers = (Column(name, justify="right") for name in ("questions", "[%]"))
    title = f"question words ({statistics.language})"
    table = Table("word", *numbers, "example", title=title, title_justify="left")
    for word in statistics.question_words:
        example = " ".join(word.example.split())
        if len(example) > _EXAMPLE:
            example = f"{example[: _EXAMPLE - 1]}…"
        table.add_row(word.name, f"{word.count:,}", f"{100 * word.share:.1f}", escape(example))
    return table


def _histogram(lengths: Lengths, what: str) -> Table:
    bins = lengths.bins()
    longest = max((count for _, _, count in bins), default=0)
    numbers = (Column(name, justify="right") for name in ("tokens", what))
    title = f"lengths of {what}"
    table = Table(*numbers, "", title=title, title_justify="left", box=None, pad_edge=False)
    for low, high, count in bins:
        span = f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}"
        table.add_row(span, f"{count:,}", f"[blue]{_bar(count / longest)}[/]")
    return table


def _bar(share: float) -> str:
    """A bar in eighths of a cell, at least one for a share above 0."""
    eighths = round(8 * _BAR * share) or (share > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _input_lengths(statistics: CollectionStatistics) -> Table:
    from telerank.verbs.data import bin_inputs

    bins = bin_inputs(statistics.inputs)
    numbers = (Column(escape(column.name), justify="right") for column in bins)
    title = "lengths of inputs: question, document and 3 special tokens"
    table = Table("tokens", *numbers, title=title, title_justify="left")
    table.add_row("frequency", *(f"{column.count:,}" for column in bins))
    table.add_row("cumulative", *(f"{column.cumulative:.3f}" for column in bins))
    return table
