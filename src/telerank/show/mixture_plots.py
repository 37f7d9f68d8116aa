"""Plot a measure over the weights of a fusion: a curve, a square or a triangle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telerank.show.plots import line_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        lines = {measure: {f"{runs[0]} + {runs[1]}": list(values), **flat}}
        return line_plot(lines, [first for first, _ in points], x_label=f"weight of {runs[0]}")
    if mixed and len(runs) == 3:
        figure = _triangle(points, values, runs, measure)
    elif len(runs) == 2:
        figure = _square(points, values, runs, measure)
    else:
        kind = "" if mixed else " that do not sum to 1"
        raise ValueError(f"the weights of two or three runs can be drawn, not of {len(runs)}{kind}")
    figure.suptitle(", ".join(f"{name}: {value:.4f}" for name, value in (levels or {}).items()), size=9)
    return figure


def _triangle(
    points: Sequence[Sequence[float]], values: Sequence[float], runs: Sequence[str], measure: str
) -> Figure:
    side = (math.isqrt(8 * len(points) + 1) - 1) // 2
    figure, panel = _map([_project(point) for point in points], values, measure, side=side, marker="h")
    panel.set_title(_title(points, values), fontsize=10)
    for corner, name in zip(((1, 0, 0), (0, 1, 0), (0, 0, 1)), runs, strict=True):
        x, y = _project(corner)
        panel.annotate(name, (x, y + (0.09 if y else -0.09)), ha="center", va="center", annotation_clip=False)
    panel.set_axis_off()
    panel.margins(0.12)
    return figure


def _square(
    points: Sequence[Sequence[float]], values: Sequence[float], runs: Sequence[str], measure: str
) -> Figure:
    side = math.isqrt(len(points) + 1)  # the origin is not a point
    figure, panel = _map([(x, y) for x, y in points], values, measure, side=side, marker="s")
    panel.set_title(_title(points, values), fontsize=10)
    panel.set_xlabel(f"weight of {runs[0]}")
    panel.set_ylabel(f"weight of {runs[1]}")
    return figure


def _map(
    positions: Sequence[tuple[float, float]], values: Sequence[float], measure: str, *, side: int, marker: str
) -> tuple[Figure, Any]:
    """Colour the positions by value and mark the best; ``side`` is the number of points along a side."""
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(5.2, 4.4), layout="constrained")
    panel: Any = figure.subplots()
    x, y = zip(*positions, strict=True)
    size = (190 / side) ** 2  # typographic points: neighbours touch
    drawn = panel.scatter(x, y, c=values, s=size, marker=marker, cmap="viridis", linewidths=0)
    best = max(range(len(values)), key=values.__getitem__)
    ring = {"s": size, "marker": marker, "facecolors": "none", "edgecolors": "#D55E00", "linewidths": 2}
    panel.scatter(x[best : best + 1], y[best : best + 1], **ring)
    panel.set_aspect("equal")
    figure.colorbar(drawn, ax=panel, label=measure, shrink=0.75)
    return figure, panel


def _title(points: Sequence[Sequence[float]], values: Sequence[float]) -> str:
    best = max(range(len(points)), key=values.__getitem__)
    return f"best: {values[best]:.4f} at {', '.join(f'{weight:.3g}' for weight in points[best])}"


def _project(weights: Sequence[float]) -> tuple[float, float]:
    """The position of weights in the triangle: the first run at the left, the second right, the third top."""
    return weights[1] + weights[2] / 2, weights[2] * math.sqrt(3) / 2
