"""Draws the picture of the README, ``docs/picture.svg``, of measured figures.

``python scripts/picture.py`` reads the times in docs/results/speed.md and the quality on PIAF in the card of
reranker-fr-en, which commands write, and explains one score of the bundled collection.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

import telerank as tr
from telerank.show.plots import COLOURS, STYLE, render_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/picture.svg"
MODEL = "bm25(k1=0.9, b=0.4)"
SYSTEMS = {"BM25": "BM25", "e5-small": "vectors", "hybrid": "both", "fused": "and re-ranked"}
QUESTION = "Qui a inventé l'imprimerie ?"
_OURS, _OTHERS, _GREY = COLOURS[0], "#b8c4cc", "#5b6670"


def read_times() -> dict[str, float]:
    """Milliseconds a query (median) of each engine for BM25's first ten documents."""
    rows = re.findall(
        rf"\| {re.escape(MODEL)} \| top-10 \| (\w+) \| ([\d.]+) \|",
        (ROOT / "docs/results/speed.md").read_text(encoding="utf-8"),
    )
    return {engine: float(milliseconds) for engine, milliseconds in rows}


def read_quality() -> tuple[dict[str, float], str]:
    """AP@15 on PIAF's questions about articles that no model has learned from, by system; their number."""
    card = (ROOT / "src/telerank_e5/models/reranker-fr-en/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| piaf \| (\S+) \| ([\d,]+) \| ([\d.]+) ", card, re.MULTILINE)
    return {SYSTEMS[name]: float(mean) for name, _, mean in rows if name in SYSTEMS}, rows[0][1]


def explain_score() -> tr.Explanation:
    """Why the first paragraph is the first."""
    with tempfile.TemporaryDirectory() as folder:
        bm25 = tr.index(tr.piaf(), folder, analyzer="french", overwrite=True, progress=False).bm25()
        return bm25.explain(QUESTION, bm25.search(QUESTION).docnos[0])


def draw() -> bytes:
    with rc_context(STYLE | {"axes.grid": False, "axes.titlelocation": "left", "axes.titlesize": 10}):
        figure = Figure(figsize=(9.6, 2.3), layout="constrained", facecolor="white")
        speed, quality, reasons = figure.subplots(1, 3)
        times = read_times()
        draw_bars(speed, times, "{:.2f}")
        speed.set_title("The exact first ten of a million\n[ms a query, BM25]", fontweight="bold")
        values, questions = read_quality()
        draw_bars(quality, values, "{:.3f}")
        quality.set_title(f"{questions} French questions, held out\n[AP@15]", fontweight="bold")
        draw_explanation(reasons, explain_score())
        return render_plot(figure)


def draw_bars(axes: Axes, values: dict[str, float], form: str) -> None:
    """A bar for each name, from above; ours, or the best, in colour."""
    ours = "telerank" if "telerank" in values else max(values, key=values.__getitem__)
    names = list(reversed(values))
    colours = [_OURS if name == ours else _OTHERS for name in names]
    bars = axes.barh(names, [values[name] for name in names], color=colours, height=0.7)
    axes.bar_label(bars, [form.format(values[name]) for name in names], padding=3, color=_GREY)
    axes.set_xlim(0, 1.2 * max(values.values()))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def draw_explanation(axes: Axes, explanation: tr.Explanation) -> None:
    """The parts of a score, one after the other, which end at the score."""
    left = 0.0
    for number, part in enumerate(explanation.parts):
        term = part.what.partition("'")[2].partition("'")[0]
        axes.barh([0], [part.value], left=left, color=COLOURS[number], height=0.5)
        axes.text(
            left + part.value / 2, 0.34, f"{term}\n{part.value:.2f}", ha="center", va="bottom", color=_GREY
        )
        left += part.value
    axes.text(left, -0.34, f"{explanation.value:.2f}", ha="right", va="top", fontweight="bold")
    axes.set(xlim=(0, left), ylim=(-0.9, 1.3), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(f"Scores that add up\n{QUESTION}", fontweight="bold")


if __name__ == "__main__":
    PICTURE.write_bytes(draw())
    print(PICTURE)
