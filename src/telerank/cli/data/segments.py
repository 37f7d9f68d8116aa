"""``telerank data segments``: lengths of documents and segments, and what lies beyond a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import Ge

from telerank.cli import console, options
from telerank.cli.data.stats import Language, PlotFormat
from telerank.cli.derive import derive
from telerank.cli.options import Format, ReportOptions, Texts
from telerank.parameters import Flags, Help

_LANGUAGES = {"english": "en", "french": "fr"}


@derive
def segments(
    collection: Annotated[str, Flags("COLLECTION"), Help("A folder, a file, or an ir_datasets id.")],
    *,
    model: Annotated[
        str, Flags("--model"), Help("A re-ranker, or an encoder to start from: in whose tokens is counted.")
    ],
    window: Annotated[
        str, Help("Segments by name: best, piaf, parade, …; or their length in tokens.")
    ] = "best",
    stride: Annotated[
        int | None, Ge(1), Help("Tokens from the start of a segment to the next one's.")
    ] = None,
    split: Annotated[
        list[str] | None, Help("Relevant text of this split; may be repeated. Default: all.")
    ] = None,
    limit: Annotated[list[int] | None, Ge(1), Help("Tokens; may be repeated. Default: 128 to 4096.")] = None,
    language: Annotated[Language, Help("Language of the sentences, if the model says none.")] = "english",
    plots: Annotated[Path | None, Flags("--plots", "DIR"), Help("A folder to save the plot in.")] = None,
    plot_format: Annotated[PlotFormat, Help("Format of the plot.")] = "png",
    format: Format = None,  # noqa: A002
    encoding: Texts = "utf-8",
    report: ReportOptions,
) -> None:
    """Cut documents into segments of a model: lengths, and what lies beyond a limit.

    Example: `telerank data segments french-long --model e5-small --language french --plots plots`
    """
    from telerank.verbs.data import LIMITS, segment_lengths

    lengths = segment_lengths(
        options.open_collection(collection, format, encoding),
        model,
        int(window) if window.isdecimal() else window,
        splits=split,
        language=_LANGUAGES[language],
        limits=limit or LIMITS,
        stride=stride,
    )
    if plots is not None:
        for file in lengths.save_plots(plots, format=plot_format):
            console.say(f"wrote {file}")
    report.write(lengths)
