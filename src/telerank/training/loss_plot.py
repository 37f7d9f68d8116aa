"""Plot the training and dev losses that a training's log has, as the Piaf report's figures 11 and 12."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telerank.show.plots import line_plot, save_plot
from telerank.training.checkpoint import LOG
from telerank.training.log import read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = "losses.svg", "losses.png"
"""The files of the plot beside the log of a training that has a dev loss."""


class LossCurves(NamedTuple):
    """The update of each dev loss, the mean training loss since the one before, and the dev loss."""

    updates: list[int]
    training: list[float]
    dev: list[float]


def read_losses(log: Path) -> LossCurves:
    """The losses of a ``log.jsonl``, empty if it has no dev loss. Raises FormatError if it is damaged."""
    curves = LossCurves([], [], [])
    total, last, begin = 0.0, 0, 0
    for record in read_log(log):
        total, last = total + record.loss * (record.step - last), record.step
        if record.dev_loss is not None:
            curves.updates.append(last)
            curves.training.append(total / (last - begin))
            curves.dev.append(record.dev_loss)
            total, begin = 0.0, last
    return curves


def draw_losses(curves: LossCurves) -> Figure:
    """Both losses by update. The training loss is computed with dropout, the dev loss without."""
    lines = {"training": curves.training, "dev": curves.dev}
    return line_plot({"loss": lines}, curves.updates, x_label="update", logarithmic=False)


def write_losses(output: Path) -> None:
    """Write the plot beside the log of a training, if it has a dev loss."""
    curves = read_losses(output / LOG)
    if curves.updates:
        figure = draw_losses(curves)
        for name in LOSSES:
            save_plot(figure, output / name)
