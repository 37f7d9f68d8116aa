"""``telerank data segments``: lengths of documents and segments, and what lies beyond a limit."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from telerank.cli import console, options
from telerank.cli.data.stats import Language, PlotFormat
from telerank.cli.options import AsJson, Encoding, FormatOption, TableForm, TableOutput
from telerank.cli.runs.output import write_report

_LANGUAGES = {Language.english: "en", Language.french: "fr"}


def segments(
    collection: str = Argument(metavar="COLLECTION", help="A folder, a file, or an ir_datasets id."),
    *,
    model: str = Option(..., help="A re-ranker, or an encoder to start from: in whose tokens is counted."),
    window: str = Option("best", help="Segments by name: best, piaf, parade, …; or their length in tokens."),
    stride: int | None = Option(None, min=1, help="Tokens from the start of a segment to the next one's."),
    split: list[str] | None = Option(
        None, help="Relevant text of this split; may be repeated. Default: all."
    ),
    limit: list[int] | None = Option(None, min=1, help="Tokens; may be repeated. Default: 128 to 4096."),
    language: Language = Option(Language.english, help="Language of the sentences, if the model says none."),
    plots: Path | None = Option(None, metavar="DIR", help="A folder to save the plot in."),
    plot_format: PlotFormat = Option(PlotFormat.png, help="Format of the plot."),
    form: TableForm = None,
    output: TableOutput = "-",
    format: FormatOption = None,  # noqa: A002
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Cut documents into segments of a model: lengths, and what lies beyond a limit.

    Example: `telerank data segments french-long --model e5-small --language french --plots plots`
    """
    from telerank.verbs.data import LIMITS, segment_lengths

    report = segment_lengths(
        options.open_collection(collection, format, encoding),
        model,
        int(window) if window.isdecimal() else window,
        splits=split,
        language=_LANGUAGES[language],
        limits=limit or LIMITS,
        stride=stride,
    )
    if plots is not None:
        for file in report.save_plots(plots, format=plot_format.value):
            console.say(f"wrote {file}")
    write_report(report, output, form, as_json=as_json)
