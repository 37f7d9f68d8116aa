"""Plots of what re-rankers compute: boxes of cosines, maps of pairs, gates over sentences."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from telerank.show.plots import COLOURS, STYLE

if TYPE_CHECKING:
    from telerank.inspect.diffusion import Spread
    from telerank.inspect.embeddings import Marks, Vectors

_BLUE = COLOURS[0]
_YELLOW = "#F0E442"  # of Okabe and Ito; the report's figures 14 and 15 have relevant pairs in yellow
_PANEL = (4.2, 3.4)  # inches
_BOX = {"whislo": "low", "q1": "first", "med": "median", "mean": "mean", "q3": "third", "whishi": "high"}
_LINE = 60  # characters of a sentence in a line
_LINES = 3  # of a sentence


def diffusion_plot(checkpoints: Mapping[str, Mapping[str, Spread]]) -> Figure:
    """Boxes of the three kinds of cosines, one for each checkpoint: quartiles, and a diamond at the mean."""
    kinds = list(next(iter(checkpoints.values())))
    width = 0.8 / len(checkpoints)
    with rc_context(STYLE):
        figure = Figure(figsize=(7.0, 3.8), layout="constrained")
        panel: Any = figure.subplots()
        handles = []
        for i, spreads in enumerate(checkpoints.values()):
            positions = [group - 0.4 + (i + 0.5) * width for group in range(len(kinds))]
            boxes = [
                {name: getattr(spread, own) for name, own in _BOX.items()} for spread in spreads.values()
            ]
            drawn = panel.bxp(
                boxes, positions=positions, widths=0.85 * width, **_box_style(COLOURS[i % len(COLOURS)])
            )
            handles.append(drawn["boxes"][0])
        panel.set_xticks(range(len(kinds)), kinds)
        panel.tick_params(axis="x", length=0)
        panel.grid(visible=False, axis="x")
        panel.set_xlim(-0.5, len(kinds) - 0.5)
        panel.set_ylabel("cosine")
        figure.legend(handles, list(checkpoints), loc="outside lower center", ncols=4)
    return figure


def map_plot(maps: Mapping[str, Sequence[Vectors]], relevant: Marks, notes: Mapping[str, str]) -> Figure:
    """A column for each checkpoint with its maps of two or three dimensions; relevant pairs are yellow.

    ``notes`` are shown below the checkpoints' names.
    """
    rows = len(next(iter(maps.values())))
    with rc_context(STYLE):
        size = (_PANEL[0] * len(maps), _PANEL[1] * rows + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        for column, (name, own_maps) in enumerate(maps.items(), 1):
            for row, points in enumerate(own_maps):
                projection = {"projection": "3d"} if points.shape[1] == 3 else {}
                panel: Any = figure.add_subplot(rows, len(maps), row * len(maps) + column, **projection)
                handles = _scatter(panel, points, relevant)
                if row == 0:
                    panel.set_title(f"{name}\n{notes.get(name, '')}".strip(), fontsize=10)
        figure.legend(*handles, loc="outside lower center", ncols=2)
    return figure


def gates_plot(query: str, gated: Sequence[tuple[str, Sequence[float]]], episodes: int) -> Figure:
    """A row for each sentence and its gates, a column for each episode; a higher gate is darker."""
    sentences = [_wrap(text) for text, _ in gated]
    edges = list(accumulate((text.count("\n") + 1.6 for text in sentences), initial=0.0))
    with rc_context({**STYLE, "axes.grid": False}):
        height = max(2.0, 1.1 + 0.17 * edges[-1])
        figure = Figure(figsize=(4.6 + 0.75 * episodes, height), layout="constrained")
        panel: Any = figure.subplots()
        values = [gates or (math.nan,) * episodes for _, gates in gated]
        drawn = panel.pcolormesh(
            range(episodes + 1), edges, values, cmap="Blues", vmin=0, vmax=1, edgecolors="white"
        )
        middles = [(low + high) / 2 for low, high in pairwise(edges)]
        for middle, row in zip(middles, values, strict=True):
            for episode, gate in enumerate(row):
                colour = "white" if gate > 0.55 else "black"
                shown = "–" if math.isnan(gate) else f"{gate:.2f}"  # the model does not read the sentence
                panel.text(episode + 0.5, middle, shown, ha="center", va="center", color=colour)
        panel.invert_yaxis()
        panel.set_yticks(middles, sentences, fontsize=8)
        panel.set_xticks(np.arange(episodes) + 0.5, range(1, episodes + 1))
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        panel.set_xlabel("episode")
        panel.set_title(_wrap(query), fontsize=10, loc="left")
        figure.colorbar(drawn, ax=panel, label="gate", shrink=min(1.0, 2.0 / height + 0.4))
    return figure


def _box_style(colour: str) -> dict[str, Any]:
    line = {"color": colour, "linewidth": 1.3}
    return {
        "showfliers": False,
        "showmeans": True,
        "patch_artist": True,
        "manage_ticks": False,
        "boxprops": {"facecolor": f"{colour}40", "edgecolor": colour, "linewidth": 1.3},
        "medianprops": {"color": colour, "linewidth": 2.2},
        "meanprops": {"marker": "D", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": colour},
        "whiskerprops": line,
        "capprops": line,
    }


def _scatter(panel: Any, points: Vectors, relevant: Marks) -> tuple[list[Any], list[str]]:
    """Draw relevant pairs last, over the others, with another colour and another mark."""
    styles = (
        (~relevant, "not relevant", {"color": _BLUE, "marker": "o", "s": 10, "alpha": 0.7}),
        (relevant, "relevant", {"color": _YELLOW, "marker": "^", "s": 16, "edgecolors": "black"}),
    )
    handles = [
        panel.scatter(*points[marks].T, label=name, linewidths=0.3, **style) for marks, name, style in styles
    ]
    for axis in ("x", "y", "z")[: points.shape[1]]:
        getattr(panel, f"set_{axis}ticks")([])  # the numbers of a map mean nothing
    return handles, [handle.get_label() for handle in handles]


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LINE, max_lines=_LINES, placeholder=" …")) or " "
