"""A measure over the weights of a fusion: a curve for two runs, a triangle for three."""

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
    """The values at the weights ``points`` of two runs or three.

    ``levels`` are values that a curve is compared with; beside a triangle they stand in the title.

    Raises
    ------
    ValueError
        where there are other than two or three runs.
    """
    if len(runs) == 2:
        flat = {name: [value] * len(points) for name, value in (levels or {}).items()}
        lines = {measure: {f"{runs[0]} + {runs[1]}": list(values), **flat}}
        return line_plot(lines, [first for first, _ in points], x_label=f"weight of {runs[0]}")
    if len(runs) == 3:
        figure = _triangle(points, values, runs, measure)
        figure.suptitle(", ".join(f"{name}: {value:.4f}" for name, value in (levels or {}).items()), size=9)
        return figure
    raise ValueError(f"the weights of two or three runs can be drawn, not of {len(runs)}")


def _triangle(
    points: Sequence[Sequence[float]], values: Sequence[float], runs: Sequence[str], measure: str
) -> Figure:
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=(5.2, 4.4), layout="constrained")
    panel: Any = figure.subplots()
    x, y = zip(*map(_place, points), strict=True)
    steps = (math.isqrt(8 * len(points) + 1) - 1) // 2  # points along a side
    size = (190 / steps) ** 2  # points of print: neighbours touch
    drawn = panel.scatter(x, y, c=values, s=size, marker="h", cmap="viridis", linewidths=0)
    best = max(range(len(points)), key=values.__getitem__)
    ring = {"s": size, "marker": "h", "facecolors": "none", "edgecolors": "#D55E00", "linewidths": 2}
    panel.scatter(x[best : best + 1], y[best : best + 1], **ring)
    shown = ", ".join(f"{weight:.3g}" for weight in points[best])
    panel.set_title(f"best: {values[best]:.4f} at {shown}", fontsize=10)
    for corner, name in zip(((1, 0, 0), (0, 1, 0), (0, 0, 1)), runs, strict=True):
        across, up = _place(corner)
        panel.annotate(
            name, (across, up + (0.09 if up else -0.09)), ha="center", va="center", annotation_clip=False
        )
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.margins(0.12)
    figure.colorbar(drawn, ax=panel, label=measure, shrink=0.75)
    return figure


def _place(weights: Sequence[float]) -> tuple[float, float]:
    """Where a mixture stands: the first run at the left, the second at the right, the third on top."""
    return weights[1] + weights[2] / 2, weights[2] * math.sqrt(3) / 2
