"""Plots of a :class:`~telerank.corpus.statistics.CollectionStatistics`, one file each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from telerank.corpus.statistics import CollectionStatistics, Lengths, bin_inputs
from telerank.show.plots import COLOURS, STYLE, save_plot

_BLUE, _ORANGE = COLOURS[:2]
_GREY = "#5b6670"


def save_plots(statistics: CollectionStatistics, folder: str | Path, *, format: str = "png") -> list[Path]:  # noqa: A002
    """Save every plot with data as png, svg or pdf; the same data give the same file."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    plots = {Path(folder, f"{name}.{format}"): figure for name, figure in draw_plots(statistics).items()}
    for path, figure in plots.items():
        save_plot(figure, path)
    return list(plots)


def draw_plots(statistics: CollectionStatistics) -> dict[str, Figure]:
    """Every plot with data, by its name."""
    plots = {}
    for name, (has_data, draw) in _PLOTS.items():
        if has_data(statistics):
            with rc_context(STYLE | {"axes.grid": False, "font.size": 9, "axes.titlelocation": "left"}):
                plots[name] = Figure(figsize=(6.4, 3.6), layout="constrained")
                draw(plots[name].add_subplot(), statistics)
    return plots


def _question_words(axes: Axes, statistics: CollectionStatistics) -> None:
    words = list(reversed(statistics.question_words))
    bars = axes.barh([one.name for one in words], [100 * one.share for one in words], color=_BLUE, height=0.7)
    axes.bar_label(bars, [f"{100 * one.share:.1f} %" for one in words], padding=4, color=_GREY)
    axes.set_xlim(0, max(1.0, 112 * max(one.share for one in words)))
    axes.set(title=f"Question words of {statistics.name}", xlabel="share of the questions [%]")
    axes.tick_params(axis="y", length=0)


def _histogram(axes: Axes, lengths: Lengths, title: str, what: str) -> None:
    bins = lengths.bins(30)
    width = bins[0][1] - bins[0][0]
    heights = [count for _, _, count in bins]
    colours = [_BLUE if high - low == width else _ORANGE for low, high, _ in bins]
    lefts = [low - 0.5 for low, _, _ in bins]  # centres the bar of a length on it
    axes.bar(lefts, heights, width=0.94 * width, align="edge", color=colours)
    last = bins[-1]
    if last[1] - last[0] != width and last[2]:
        axes.annotate(
            f"{last[2]:,} of {last[0]:,} to {last[1] - 1:,}",
            (last[0] - 0.5 + width, max(heights[-7:])), xytext=(-2, 6), textcoords="offset points",
            ha="right", color=_ORANGE,
        )  # fmt: skip
    half = lengths.quantile(0.5)
    axes.axvline(half, color=_GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.annotate(
        f"median {half:,}", (half, 0.985), xycoords=("data", "axes fraction"), xytext=(4, 0),
        textcoords="offset points", color=_GREY, va="top",
    )  # fmt: skip
    axes.set(title=title, xlabel="tokens", ylabel=what, ylim=(0, 1.16 * max(heights)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
    _whole_numbers(axes)


def _input_lengths(axes: Axes, statistics: CollectionStatistics) -> None:
    bins = bin_inputs(statistics.inputs)
    names = [one.name for one in bins]
    bars = axes.bar(
        names, [one.count for one in bins], color=[*[_BLUE] * (len(bins) - 1), _ORANGE], width=0.75
    )
    axes.bar_label(bars, [f"{one.cumulative:.3f}" for one in bins], padding=3, color=_GREY)
    axes.margins(y=0.12)
    axes.set(
        title=f"Input lengths of {statistics.name}, with their cumulative share",
        xlabel="tokens of question and document and three more", ylabel="pairs",
    )  # fmt: skip
    _whole_numbers(axes)


def _class_balance(axes: Axes, statistics: CollectionStatistics) -> None:
    counts = {"relevant": statistics.positives, "not relevant": statistics.negatives}
    total = sum(counts.values())
    bars = axes.bar(list(counts), list(counts.values()), color=[_ORANGE, _BLUE], width=0.5)
    axes.bar_label(
        bars, [f"{n:,} ({100 * n / total:.1f} %)" for n in counts.values()], padding=3, color=_GREY
    )
    axes.margins(x=0.3, y=0.12)
    axes.set(title=f"Pairs of a question and a document in {statistics.name}", ylabel="pairs")
    axes.tick_params(axis="x", length=0)
    _whole_numbers(axes)


def _whole_numbers(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


# by name: whether there is data for the plot, and how to draw it
_PLOTS: Mapping[
    str, tuple[Callable[[CollectionStatistics], object], Callable[[Axes, CollectionStatistics], None]]
] = {
    "question-words": (lambda statistics: statistics.questions.total, _question_words),
    "question-lengths": (
        lambda statistics: statistics.questions.total,
        lambda axes, all_: _histogram(axes, all_.questions, f"Question lengths of {all_.name}", "questions"),
    ),
    "document-lengths": (
        lambda statistics: statistics.documents.total,
        lambda axes, all_: _histogram(axes, all_.documents, f"Document lengths of {all_.name}", "documents"),
    ),
    "input-lengths": (lambda statistics: statistics.inputs.total, _input_lengths),
    "class-balance": (lambda statistics: statistics.negatives, _class_balance),
}
