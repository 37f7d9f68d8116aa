"""``telerank data stats``: question words, lengths, input lengths and class balance of collections."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from telerank.cli import console
from telerank.cli.options import AsJson, Encoding, FormatOption
from telerank.errors import FormatError, MissingExtra

if TYPE_CHECKING:
    from telerank.corpus.statistics import CollectionStatistics, Lengths

_BAR = 40  # cells of the longest bar
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")
_QUANTILES = {"min": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "max": 1.0}
_EXAMPLE = 44  # characters of a question


class PlotFormat(StrEnum):
    png = "png"
    svg = "svg"
    pdf = "pdf"


class Language(StrEnum):
    french = "french"
    english = "english"


def stats(
    collections: Annotated[
        list[str], typer.Argument(metavar="COLLECTION", help="Folders, files, or ir_datasets ids.")
    ],
    *,
    split: Annotated[
        list[str] | None, typer.Option("--split", help="Only this split; repeat for several. Default: all.")
    ] = None,
    analyzer: Annotated[
        str, typer.Option("--analyzer", "-a", help="The analyzer whose terms are the tokens.")
    ] = "standard",
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A tokenizer.json, whose tokens are counted instead.")
    ] = None,
    language: Annotated[
        Language | None, typer.Option(help="Language of the question words; default: what fits.")
    ] = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="A folder for plots of them.")] = None,
    plot_format: Annotated[PlotFormat, typer.Option(help="Format of the plots.")] = PlotFormat.png,
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Show what a set is like: question words, lengths in tokens, input lengths, class balance.

    Example: `telerank data stats piaf --plots plots`
    """
    from telerank.corpus.formats import open_collection
    from telerank.corpus.statistics import describe

    count = _counting(analyzer, tokenizer)
    told = []
    for name in collections:
        opened = open_collection(name, format=format, encoding=encoding)
        with console.progress(of=opened.size) as progress:
            one = describe(opened, count=count, splits=split, language=language, progress=progress)
        told.append(_as_json(one))
        if not as_json:
            _show(one)
        if plots is not None:
            _draw(one, plots / one.name if len(collections) > 1 else plots, plot_format)
    if as_json:
        print(json.dumps(told if len(told) > 1 else told[0], ensure_ascii=False))  # noqa: T201


def _draw(one: CollectionStatistics, folder: Path, plot_format: PlotFormat) -> None:
    from telerank.corpus.statistics_plots import save_plots

    for file in save_plots(one, folder, format=plot_format.value):
        console.say(f"wrote {file}")


def _counting(analyzer: str, tokenizer: Path | None) -> Callable[[str], int]:
    if tokenizer is None:
        from telerank.text import Analyzer

        chain = Analyzer.parse(analyzer)
        return lambda text: len(chain(text))
    try:
        library = importlib.import_module("tokenizers")
    except ImportError as error:
        raise MissingExtra("tokenizers", "neural") from error
    try:
        pieces = library.Tokenizer.from_str(tokenizer.read_text("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise FormatError(tokenizer, None, f"a tokenizer.json ({error})") from error
    return lambda text: len(pieces.encode(text, add_special_tokens=False))


def _show(one: CollectionStatistics) -> None:
    console.out.print(f"[bold]{escape(one.name)}[/]  splits: {escape(', '.join(one.splits)) or 'none'}")
    console.out.print(_lengths(one))
    if one.questions.total:
        console.out.print(
            f"{one.unique_questions:,} of {one.questions.total:,} questions differ in their words"
        )
        console.out.print(_question_words(one))
        console.out.print(_histogram(one.questions, "questions"))
    if one.documents.total:
        console.out.print(_histogram(one.documents, "documents"))
    if one.inputs.total:
        console.out.print(_input_lengths(one))
    pairs = one.positives + one.negatives
    if pairs:
        share = 100 * one.positives / pairs
        relevant = f"{one.positives:,} relevant ({share:.1f} %), {one.negatives:,} not"
        console.out.print(f"{pairs:,} pairs of a question and a document: {relevant}")
    noted = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in one.notes.items() if count)
    if noted:
        console.out.print(f"the reader met: {escape(noted)}", soft_wrap=True)


def _lengths(one: CollectionStatistics) -> Table:
    table = Table(title="lengths in tokens", title_justify="left")
    table.add_column("")
    for name in ("count", "mean", *_QUANTILES):
        table.add_column(name, justify="right")
    for name in ("documents", "questions", "inputs"):
        lengths: Lengths = getattr(one, name)
        if lengths.total:
            quantiles = (f"{lengths.quantile(q):,}" for q in _QUANTILES.values())
            table.add_row(name, f"{lengths.total:,}", f"{lengths.mean:,.1f}", *quantiles)
    return table


def _question_words(one: CollectionStatistics) -> Table:
    table = Table(title=f"question words ({one.language})", title_justify="left")
    table.add_column("word")
    table.add_column("questions", justify="right")
    table.add_column("[%]", justify="right")
    table.add_column("example")
    for kind in one.question_words:
        table.add_row(kind.name, f"{kind.count:,}", f"{100 * kind.share:.1f}", escape(_cut(kind.example)))
    return table


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXAMPLE else f"{line[: _EXAMPLE - 1]}…"


def _histogram(lengths: Lengths, what: str) -> Table:
    bins = lengths.bins()
    longest = max((count for _, _, count in bins), default=0)
    table = Table(title=f"lengths of {what}", title_justify="left", box=None, pad_edge=False)
    table.add_column("tokens", justify="right")
    table.add_column(what, justify="right")
    table.add_column("")
    for low, high, count in bins:
        span = f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}"
        table.add_row(span, f"{count:,}", f"[blue]{_bar(count / longest)}[/]")
    return table


def _bar(share: float) -> str:
    """A bar in eighths of a cell; what is more than nothing is seen."""
    eighths = round(8 * _BAR * share) or (share > 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]


def _input_lengths(one: CollectionStatistics) -> Table:
    table = Table(title="lengths of inputs: question, document and 3 special tokens", title_justify="left")
    table.add_column("tokens")
    bins = one.bin_inputs()
    for part in bins:
        table.add_column(escape(part.name), justify="right")
    table.add_row("frequency", *(f"{part.count:,}" for part in bins))
    table.add_row("cumulative", *(f"{part.cumulative:.3f}" for part in bins))
    return table


def _as_json(one: CollectionStatistics) -> dict[str, Any]:
    return {
        "name": one.name,
        "splits": one.splits,
        "documents": _lengths_as_json(one.documents),
        "questions": _lengths_as_json(one.questions) | {"different": one.unique_questions},
        "question_words": {"language": one.language, "kinds": [asdict(kind) for kind in one.question_words]},
        "inputs": _lengths_as_json(one.inputs) | {"bins": [asdict(part) for part in one.bin_inputs()]},
        "pairs": {"relevant": one.positives, "not_relevant": one.negatives},
        "notes": dict(one.notes),
    }


def _lengths_as_json(lengths: Lengths) -> dict[str, Any]:
    return {
        "count": lengths.total,
        "mean": lengths.mean,
        "quantiles": {name: lengths.quantile(q) for name, q in _QUANTILES.items()},
        "histogram": {str(length): count for length, count in lengths.counts.items()},
    }
