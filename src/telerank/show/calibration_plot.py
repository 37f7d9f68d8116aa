"""Plot how often confidences are right, and the risk of answering more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from telerank.show.plots import COLOURS, STYLE
from telerank.types import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calibration_plot(bins: Sequence[tuple[float, float, int]], curve: tuple[Scores, Scores]) -> Figure:
    """Draw bins of a confidence, how often it is right and their sizes; and risks at coverages.

    The diagonal is a perfect calibration; the area of a point grows with the size of its bin.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure as NewFigure

    most = max((size for _, _, size in bins), default=1)
    with rc_context(STYLE):
        figure = NewFigure(figsize=(8.4, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot([0, 1], [0, 1], color=COLOURS[-1], linestyle="--", linewidth=0.8)
        for confidence, value, size in bins:
            left.scatter([confidence], [value], s=10 + 90 * size / most, color=COLOURS[0])
        left.set(xlabel="confidence", ylabel="right", xlim=(0, 1), ylim=(0, 1))
        right.plot(*curve, color=COLOURS[1])
        right.set(xlabel="coverage", ylabel="risk", xlim=(0, 1), ylim=(0, None))
    return figure
