"""Line and bar plots whose colours colour-blind readers can tell apart, with distinct markers."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.drafts import replace_file
from telerank.errors import FormatError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panels: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""``panels[title][line]``: a value for each x."""

# the palette of Okabe and Ito (2008) without yellow, which is too light for lines
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*PX"
_DASHES = ("-", "--", ":", "-.")
_PANEL = (4.2, 3.2)  # inches
_SPREAD = 30  # ratio of the largest to the smallest x above which the axis is logarithmic
_TICKS = 10  # labels that fit below the x axis
_LETTERS = 3  # labels longer than this take more room
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "telerank",  # equal plots give equal bytes
}


def line_plot(
    panels: Panels, x: Sequence[float], *, x_label: str = "depth", logarithmic: bool | None = None
) -> Figure:
    """Draw panels in rows of three, with a shared legend; each line has a value for each ``x``.

    ``logarithmic`` is the axis of ``x``; by default if its values differ by a large factor.
    """
    is_wide = bool(x) and min(x) > 0 and max(x) / min(x) > _SPREAD

    def draw(panel: Any, lines: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        if is_wide if logarithmic is None else logarithmic:
            panel.set_xscale("log")
        _draw_lines(panel, lines, names, x)
        panel.set_xlabel(x_label)

    return _draw_panels(panels, draw, columns=min(3, len(panels)))


def bar_plot(panels: Panels, groups: Sequence[str], *, colours: Sequence[str] = COLOURS) -> Figure:
    """Draw panels below each other: a group of bars for each of ``groups``, a bar for each name."""

    def draw(panel: Any, bars: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        _draw_bars(panel, {name: bars.get(name, ()) for name in names}, groups, colours)

    return _draw_panels(panels, draw, panel_size=(2 * _PANEL[0], 0.75 * _PANEL[1]), legend_columns=4)


def point_plot(points: Mapping[str, tuple[float, float]], *, x_label: str, y_label: str) -> Figure:
    """Draw a point for each name."""

    def draw(panel: Any, named: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            style = {"color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
            panel.plot(*([value] for value in named[name]), label=name, linestyle="none", **style)
        panel.set_xlabel(x_label)

    return _draw_panels({y_label: points}, draw, panel_size=(1.3 * _PANEL[0], 1.1 * _PANEL[1]))


def _draw_panels(
    panels: Panels,
    draw: Callable[[Any, Mapping[str, Sequence[float]], Sequence[str]], None],
    *,
    columns: int = 1,
    panel_size: tuple[float, float] = _PANEL,
    legend_columns: int | None = None,
) -> Figure:
    """A figure of panels in rows of ``columns``, with one legend of all names if there are several."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as NewFigure

    if not panels:
        raise ValueError("a plot needs a panel")
    names = list(dict.fromkeys(name for values in panels.values() for name in values))
    rows, entries = -(-len(panels) // columns), legend_columns or 2 * columns
    legend_rows = -(-len(names) // entries) if len(names) > 1 else 0
    height = panel_size[1] * rows + 0.25 * legend_rows
    with rc_context(STYLE):
        figure = NewFigure(figsize=(panel_size[0] * columns, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for panel, (label, values) in zip(axes, panels.items(), strict=False):
            draw(panel, values, names)
            panel.set_ylabel(label)
            handles |= {text: handle for handle, text in zip(*panel.get_legend_handles_labels(), strict=True)}
        for empty in axes[len(panels) :]:
            empty.remove()
        if legend_rows:
            order = [handles[name] for name in names]
            figure.legend(order, names, loc="outside lower center", ncols=entries)
    return figure


def save_plot(figure: Figure, path: str | Path) -> None:
    """Write a plot in the format of its suffix, which :func:`check_plot_name` checks.

    Its folder is made if only the last one of the path is missing.
    """
    check_plot_name(path)
    content = render_plot(figure, Path(path).suffix.lower()[1:])
    replace_file(Path(path), content)


def check_plot_name(path: str | Path) -> None:
    """Check that the name of a plot ends in ``.png``, ``.svg`` or ``.pdf``; otherwise FormatError."""
    if Path(path).suffix.lower() not in _METADATA:
        raise FormatError(path, None, f"the name of a plot, ending in {', '.join(_METADATA)}")


def render_plot(figure: Figure, form: str = "svg") -> bytes:
    """The bytes of a plot as ``svg``, ``png`` or ``pdf``; equal plots give equal bytes."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(content, format=form, dpi=150, metadata=_METADATA[f".{form}"])
    return content.getvalue()


_METADATA: Mapping[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}  # without date and program


def _draw_lines(
    panel: Any, lines: Mapping[str, Sequence[float]], names: Sequence[str], x: Sequence[float]
) -> None:
    for name, values in lines.items():
        if len(values) != len(x):
            raise ValueError(f"the line {name!r} has {len(values)} values for {len(x)} x")
        i = names.index(name)
        panel.plot(
            x,
            values,
            label=name,
            color=COLOURS[i % len(COLOURS)],
            marker=_MARKERS[i % len(_MARKERS)],
            linestyle=_DASHES[i // len(COLOURS) % len(_DASHES)],
        )
    panel.set_xticks(_ticks(x, math.log if panel.get_xscale() == "log" else float))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.minorticks_off()


def _draw_bars(
    panel: Any, bars: Mapping[str, Sequence[float]], groups: Sequence[str], colours: Sequence[str]
) -> None:
    width = 0.8 / len(bars)
    for i, (name, values) in enumerate(bars.items()):
        if len(values) != len(groups):
            raise ValueError(f"the bars {name!r} have {len(values)} values for {len(groups)} groups")
        left = [group - 0.4 + (i + 0.5) * width for group in range(len(groups))]
        colour = colours[i % len(colours)]
        drawn = panel.bar(left, values, width=0.92 * width, label=name, color=colour)
        panel.bar_label(drawn, fmt="{:.2f}", fontsize=7, padding=1)
    panel.set_xticks(range(len(groups)), groups)
    panel.tick_params(axis="x", length=0)
    panel.grid(visible=False, axis="x")
    panel.margins(x=0.01, y=0.1)


def _ticks(x: Sequence[float], project: Callable[[float], float]) -> list[float]:
    """The values of ``x`` whose labels fit: both ends, and those between from the left."""
    if not x:
        return []
    first, *between = sorted(x)
    last = between.pop() if between else first
    room = (project(last) - project(first)) / _TICKS * (1 - 1e-9)  # 0.3 - 0.2 is below 0.1

    def are_apart(left: float, right: float) -> bool:
        letters = len(f"{left:g}{right:g}") / 2
        return project(right) - project(left) >= room * max(1.0, letters / _LETTERS)

    kept = [first]
    for value in between:
        if are_apart(kept[-1], value) and are_apart(value, last):
            kept.append(value)
    return kept if last == first else [*kept, last]
