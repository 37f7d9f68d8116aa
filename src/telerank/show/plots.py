"""Plots whose colours colour-blind readers can tell apart: lines, bars, points, weights, confidences."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from telerank.drafts import replace_file
from telerank.errors import ArgumentError, FormatError
from telerank.types import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# ``panels[title][line]``: a value for each x.
Panels: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]

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


@contextmanager
def new_figure(width: float, height: float, **style: Any) -> Iterator[Figure]:
    """A figure of this size in inches, in the style of all plots, with what differs."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**STYLE, **style}):
        yield Figure(figsize=(width, height), layout="constrained")


def place_in_groups(panel: Any, groups: Sequence[str], i: int, count: int) -> tuple[list[float], float]:
    """The positions of the bars number ``i`` of ``count`` in each group, and the width of each.

    The axis names the groups.
    """
    panel.set_xticks(range(len(groups)), groups)
    panel.tick_params(axis="x", length=0)
    panel.grid(visible=False, axis="x")
    width = 0.8 / count
    return [group - 0.4 + (i + 0.5) * width for group in range(len(groups))], width


def line_plot(
    panels: Panels, x: Sequence[float], *, x_label: str = "depth", logarithmic: bool | None = None
) -> Figure:
    """Draw panels in rows of three, with a shared legend; each line has a value for each ``x``.

    ``logarithmic`` is the axis of ``x``; by default if its values differ by a large factor.
    """
    if logarithmic is None:
        logarithmic = bool(x) and min(x) > 0 and max(x) / min(x) > _SPREAD

    def draw(panel: Any, lines: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        panel.set_xscale("log" if logarithmic else "linear")
        for name, values in lines.items():
            if len(values) != len(x):
                raise ArgumentError(f"the line {name!r} has {len(values)} values for {len(x)} x")
            i = names.index(name)
            dashes = _DASHES[i // len(COLOURS) % len(_DASHES)]
            panel.plot(x, values, label=name, linestyle=dashes, **_point_style(i))
        panel.set_xticks(_ticks(x, math.log if logarithmic else float))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.minorticks_off()
        panel.set_xlabel(x_label)

    return _draw_panels(panels, draw, columns=min(3, len(panels)))


def _point_style(i: int) -> dict[str, str]:
    return {"color": COLOURS[i % len(COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}


def bar_plot(panels: Panels, groups: Sequence[str], *, colours: Sequence[str] = COLOURS) -> Figure:
    """Draw panels below each other: a group of bars for each of ``groups``, a bar for each name."""

    def draw(panel: Any, bars: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            values = bars.get(name, ())
            if len(values) != len(groups):
                raise ArgumentError(f"the bars {name!r} have {len(values)} values for {len(groups)} groups")
            left, width = place_in_groups(panel, groups, i, len(names))
            colour = colours[i % len(colours)]
            drawn = panel.bar(left, values, width=0.92 * width, label=name, color=colour)
            panel.bar_label(drawn, fmt="{:.2f}", fontsize=7, padding=1)
        panel.margins(x=0.01, y=0.1)

    return _draw_panels(panels, draw, panel_size=(2 * _PANEL[0], 0.75 * _PANEL[1]), legend_columns=4)


def point_plot(points: Mapping[str, tuple[float, float]], *, x_label: str, y_label: str) -> Figure:
    """Draw a point for each name."""

    def draw(panel: Any, named: Mapping[str, Sequence[float]], names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            panel.plot(*([value] for value in named[name]), label=name, linestyle="none", **_point_style(i))
        panel.set_xlabel(x_label)

    return _draw_panels({y_label: points}, draw, panel_size=(1.3 * _PANEL[0], 1.1 * _PANEL[1]))


def mixture_plot(
    points: Sequence[Sequence[float]],
    values: Sequence[float],
    runs: Sequence[str],
    *,
    measure: str,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Plot the values at the weights ``points`` of two or three runs.

    Weights that sum to 1 are a curve (two runs) or a triangle (three); other weights of two runs are a
    square. ``levels`` are drawn as lines beside a curve and named in the title of the others. Other numbers
    of runs, and weights of three that do not sum to 1, raise ValueError.
    """
    mixed = all(math.isclose(sum(point), 1) for point in points)
    if mixed and len(runs) == 2:
        flat = {name: [value] * len(points) for name, value in (levels or {}).items()}
        return line_plot(
            {measure: {f"{runs[0]} + {runs[1]}": list(values), **flat}},
            [first for first, _ in points],
            x_label=f"weight of {runs[0]}",
        )
    if len(runs) != (3 if mixed else 2):
        kind = "" if mixed else " that do not sum to 1"
        raise ArgumentError(f"the weights of two or three runs can be drawn, not of {len(runs)}{kind}")
    if mixed:
        side = (math.isqrt(8 * len(points) + 1) - 1) // 2
        positions = [_project(point) for point in points]
        figure, panel = _map(points, positions, values, measure, size=190 / side)
        for corner, name in zip(((1, 0, 0), (0, 1, 0), (0, 0, 1)), runs, strict=True):
            x, y = _project(corner)
            at = (x, y + (0.09 if y else -0.09))
            panel.annotate(name, at, ha="center", va="center", annotation_clip=False)
        panel.set_axis_off()
        panel.margins(0.12)
    else:
        side = math.isqrt(len(points) + 1)  # the origin is not a point
        figure, panel = _map(points, points, values, measure, size=190 / side, marker="s")
        panel.set(xlabel=f"weight of {runs[0]}", ylabel=f"weight of {runs[1]}")
    figure.suptitle(", ".join(f"{name}: {value:.4f}" for name, value in (levels or {}).items()), size=9)
    return figure


def calibration_plot(bins: Sequence[tuple[float, float, int]], curve: tuple[Scores, Scores]) -> Figure:
    """Draw bins of a confidence, how often it is right and their sizes; and risks at coverages.

    The diagonal is a perfect calibration; the area of a point grows with the size of its bin.
    """
    most = max((size for _, _, size in bins), default=1)
    with new_figure(8.4, 3.2) as figure:
        left, right = figure.subplots(1, 2)
        left.plot([0, 1], [0, 1], color=COLOURS[-1], linestyle="--", linewidth=0.8)
        for confidence, value, size in bins:
            left.scatter([confidence], [value], s=10 + 90 * size / most, color=COLOURS[0])
        left.set(xlabel="confidence", ylabel="right", xlim=(0, 1), ylim=(0, 1))
        right.plot(*curve, color=COLOURS[1])
        right.set(xlabel="coverage", ylabel="risk", xlim=(0, 1), ylim=(0, None))
    return figure


def _draw_panels(
    panels: Panels,
    draw: Callable[[Any, Mapping[str, Sequence[float]], Sequence[str]], None],
    *,
    columns: int = 1,
    panel_size: tuple[float, float] = _PANEL,
    legend_columns: int | None = None,
) -> Figure:
    """A figure of panels in rows of ``columns``, with one legend of all names if there are several."""
    if not panels:
        raise ArgumentError("a plot needs a panel")
    names = list(dict.fromkeys(name for values in panels.values() for name in values))
    rows, entries = -(-len(panels) // columns), legend_columns or 2 * columns
    legend_rows = -(-len(names) // entries) if len(names) > 1 else 0
    with new_figure(panel_size[0] * columns, panel_size[1] * rows + 0.25 * legend_rows) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for panel, (label, values) in zip(axes, panels.items(), strict=False):
            draw(panel, values, names)
            panel.set_ylabel(label)
            handles |= {text: handle for handle, text in zip(*panel.get_legend_handles_labels(), strict=True)}
        for empty in axes[len(panels) :]:
            empty.remove()
        if legend_rows:
            figure.legend([handles[name] for name in names], names, loc="outside lower center", ncols=entries)
    return figure


def save_plot(figure: Figure, path: str | Path) -> None:
    """Write a plot in the format of its suffix, which :func:`check_plot_name` checks.

    Its folder is made if only the last one of the path is missing.
    """
    check_plot_name(path)
    replace_file(Path(path), render_plot(figure, Path(path).suffix.lower()[1:]))


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


def _ticks(x: Sequence[float], project: Callable[[float], float]) -> list[float]:
    """The values of ``x`` whose labels fit: both ends, and those between from the left."""
    if not x:
        return []
    first, *between = sorted(x)
    last = between.pop() if between else first
    room = (project(last) - project(first)) / _TICKS * (1 - 1e-9)  # 0.3 - 0.2 is below 0.1

    def are_apart(left: float, right: float) -> bool:
        return project(right) - project(left) >= room * max(1.0, len(f"{left:g}{right:g}") / 2 / _LETTERS)

    kept = [first]
    for value in between:
        if are_apart(kept[-1], value) and are_apart(value, last):
            kept.append(value)
    return kept if last == first else [*kept, last]


def _map(
    points: Sequence[Sequence[float]],
    positions: Sequence[Sequence[float]],
    values: Sequence[float],
    measure: str,
    *,
    size: float,
    marker: str = "h",
) -> tuple[Figure, Any]:
    """Colour the positions of the points by value and mark the best; neighbours of this ``size`` touch."""
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(5.2, 4.4), layout="constrained")
    panel: Any = figure.subplots()
    x, y = zip(*positions, strict=True)
    drawn = panel.scatter(x, y, c=values, s=size**2, marker=marker, cmap="viridis", linewidths=0)
    best = max(range(len(values)), key=values.__getitem__)
    ring = {"marker": marker, "facecolors": "none", "edgecolors": "#D55E00", "linewidths": 2}
    panel.scatter(x[best : best + 1], y[best : best + 1], s=size**2, **ring)
    panel.set_aspect("equal")
    weights = ", ".join(f"{weight:.3g}" for weight in points[best])
    panel.set_title(f"best: {values[best]:.4f} at {weights}", fontsize=10)
    figure.colorbar(drawn, ax=panel, label=measure, shrink=0.75)
    return figure, panel


def _project(weights: Sequence[float]) -> tuple[float, float]:
    """The position of weights in the triangle: the first run at the left, the second right, the third top."""
    return weights[1] + weights[2] / 2, weights[2] * math.sqrt(3) / 2
