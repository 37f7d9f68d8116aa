"""``telerank data stats``: what a set is like, as text, JSON and plots."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from telerank.cli import console
from telerank.cli.options import AsJson, CollectionArgument, Encoding, FormatOption, Split

if TYPE_CHECKING:
    from telerank.corpus.statistics import Description, Lengths

_BAR = 30  # characters of the longest bar of a histogram
_EXAMPLE = 100  # characters of a question
_QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}


class Language(StrEnum):
    english = "english"
    french = "french"


class PlotFormat(StrEnum):
    png = "png"
    svg = "svg"
    pdf = "pdf"


def stats(
    collection: CollectionArgument,
    *,
    split: Split = None,
    analyzer: Annotated[
        str, typer.Option("--analyzer", "-a", help="Whose terms are the tokens that are counted.")
    ] = "standard",
    language: Annotated[
        Language | None,
        typer.Option("--language", help="Of the question words: default: what fits."),
    ] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="A folder for the plots.")] = None,
    plot_format: Annotated[PlotFormat, typer.Option("--plot-format", help="Of the plots.")] = PlotFormat.png,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Question words, lengths in tokens, lengths of a cross-encoder's inputs, class balance.

    Example: `telerank data stats ../shared/data/piaf --plots plots`
    """
    from telerank.corpus.collection import open_collection
    from telerank.corpus.statistics import describe
    from telerank.text import Analyzer

    terms = Analyzer.parse(analyzer)
    opened = open_collection(collection, format=format, encoding=encoding)
    with console.progress(of=opened.size) as progress:
        found = describe(
            opened,
            count=lambda text: len(terms(text)),
            splits=None if split is None else [split],
            language=language and language.value,
            progress=progress,
        )
    if as_json:
        print(json.dumps(_record(found), ensure_ascii=False))  # noqa: T201 — for machines
    else:
        _show(found)
    if plots is not None:
        from telerank.inspect.set_plots import save_plots

        for place in save_plots(found, plots, format=plot_format.value):
            console.err.print(f"wrote {escape(str(place))}", soft_wrap=True)


def _record(found: Description) -> dict[str, object]:
    return {
        "name": found.name,
        "splits": found.splits,
        "documents": _summary(found.documents),
        "questions": _summary(found.questions),
        "unique_questions": found.unique_questions,
        "language": found.language,
        "question_words": [
            {"word": one.name, "count": one.count, "share": one.share} for one in found.question_words
        ],
        "inputs": {
            **_summary(found.inputs),
            "bins": [
                {"tokens": one.name, "count": one.count, "cumulative": one.cumulative}
                for one in found.input_bins()
            ],
        },
        "pairs": {"positive": found.positives, "negative": found.negatives},
        "notes": dict(found.notes),
    }


def _summary(lengths: Lengths) -> dict[str, object]:
    return {
        "count": lengths.total,
        "mean": lengths.mean,
        "quantiles": {name: lengths.quantile(q) for name, q in _QUANTILES.items()},
        "longest": lengths.quantile(1.0),
        "histogram": lengths.bins(),
    }


def _show(found: Description) -> None:
    console.out.print(f"[bold]{escape(found.name)}[/]  splits: {escape(', '.join(found.splits)) or 'none'}")
    _show_lengths(found)
    if found.questions.total:
        console.out.print(
            f"{found.unique_questions:,} of {found.questions.total:,} questions are unlike all others"
        )
        _show_question_words(found)
    for name, lengths in (("document", found.documents), ("question", found.questions)):
        if lengths.total:
            _show_histogram(f"{name} lengths", lengths)
    if found.inputs.total:
        _show_inputs(found)
    if found.positives or found.negatives:
        pairs = found.positives + found.negatives
        share = 100 * found.positives / pairs
        console.out.print(
            f"{pairs:,} pairs of a question and a document, {found.positives:,} ({share:.1f} %) relevant"
        )
    for what, count in found.notes.items():
        console.out.print(f"{escape(what.replace('_', ' '))}: {count:,}", soft_wrap=True)


def _show_lengths(found: Description) -> None:
    table = Table(title="lengths in tokens", title_justify="left")
    table.add_column("")
    for name in ("count", "mean", *_QUANTILES, "longest"):
        table.add_column(name, justify="right")
    for name, lengths in (
        ("documents", found.documents),
        ("questions", found.questions),
        ("inputs", found.inputs),
    ):
        if lengths.total:
            quantiles = (f"{lengths.quantile(q):,}" for q in (*_QUANTILES.values(), 1.0))
            table.add_row(name, f"{lengths.total:,}", f"{lengths.mean:,.1f}", *quantiles)
    console.out.print(table)


def _show_question_words(found: Description) -> None:
    table = Table(title=f"question words ({found.language})", title_justify="left")
    table.add_column("word", no_wrap=True)
    table.add_column("questions", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("for example")
    for one in found.question_words:
        table.add_row(one.name, f"{one.count:,}", f"{100 * one.share:.2f} %", escape(one.example[:_EXAMPLE]))
    console.out.print(table)


def _show_histogram(title: str, lengths: Lengths) -> None:
    bins = lengths.bins()
    most = max(count for _, _, count in bins)
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    for low, high, count in bins:
        bar = "█" * round(_BAR * count / most) or ("▏" if count else "")
        table.add_row(f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}", f"{count:,}", bar)
    console.out.print(table)


def _show_inputs(found: Description) -> None:
    table = Table(title="tokens of question and document and three more", title_justify="left")
    table.add_column("tokens")
    table.add_column("pairs", justify="right")
    table.add_column("cumulative", justify="right")
    for one in found.input_bins():
        table.add_row(escape(one.name), f"{one.count:,}", f"{one.cumulative:.4f}")
    console.out.print(table)
