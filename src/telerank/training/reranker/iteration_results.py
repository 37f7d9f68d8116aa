"""What the iterations of BeST reached: a table and a plot (BeST, table 2)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field

from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.plots import line_plot, save_plot
from telerank.show.tables import Table, render_markdown, show_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULT, RESULTS = "result.json", "iterations.json"
PLOTS = "iterations.svg", "iterations.png"
_SELECTION = "P@1 of the selection"


@dataclass(frozen=True)
class IterationResult:
    """The best ``dev`` measure of an iteration and its ``update``.

    ``dev_precision`` is P@1 of the segments that its model selects of the relevant dev documents,
    ``selection_precision`` P@1 of those that it selects for the next iteration: of the segments to learn from
    alone, which are the leading ones, and may have random lengths. Both are None without known passages.
    ``changed`` is the share of the selections it learned from that differ from those of the iteration before.
    ``pairs`` were learned from; of ``cut_queries`` and ``cut_segments`` some tokens were cut off.
    ``reachable`` is the share of the known passages of train that one of the segments learned from contains.
    """

    iteration: int
    dev: float
    update: int
    selection_precision: Annotated[
        float | None, Field(validation_alias=AliasChoices("selection_precision", "train_precision"))
    ]
    dev_precision: float | None
    changed: float | None
    pairs: int
    cut_queries: int
    cut_segments: int
    reachable: float | None = None

    def describe(self, measure: str) -> str:
        """The values in a line."""
        values = {
            f"dev {measure}": f"{self.dev:.4f}",
            _SELECTION: show_value(self.selection_precision),
            "within reach": show_value(self.reachable),
            "P@1 on dev": show_value(self.dev_precision),
            "changed": self.changed_share,
        }
        shown = ", ".join(f"{name} {value}" for name, value in values.items() if value != "–")
        return f"iteration {self.iteration}: {shown}"

    @property
    def changed_share(self) -> str:
        """The selections that changed, in percent; a dash if none was before."""
        return "–" if self.changed is None else f"{100 * self.changed:.1f} %"

    def write(self, folder: Path) -> None:
        """Write the result into the folder of its iteration."""
        replace_file(folder / RESULT, f"{json.dumps(asdict(self), indent=2)}\n".encode())


def read_result(folder: Path) -> IterationResult | None:
    """The result of the iteration in ``folder``; None if it is not over.

    Raises ModelError if it is damaged.
    """
    path = folder / RESULT
    return read_record(path, IterationResult, ModelError) if path.exists() else None


@dataclass(frozen=True)
class Iterations:
    """The results of a training's iterations, and the measure of its dev queries."""

    measure: str
    iterations: list[IterationResult]

    @classmethod
    def read(cls, output: Path) -> Iterations:
        """Those of the training in a folder. Raises ModelError if the values are damaged."""
        return read_record(output / RESULTS, cls, ModelError)

    @property
    def best(self) -> IterationResult:
        """The iteration with the highest dev measure; of equal ones the first."""
        return max(self.iterations, key=lambda result: (result.dev, -result.iteration))

    def write(self, output: Path) -> None:
        """Write the table, its values and the plot into the folder of the training."""
        replace_file(output / RESULTS, f"{json.dumps(asdict(self), indent=2)}\n".encode())
        replace_file((output / RESULTS).with_suffix(".md"), render_markdown(self.table()).encode())
        figure = self.draw()
        for name in PLOTS:
            save_plot(figure, output / name)

    def table(self) -> Table:
        """A row for each iteration."""
        rows = [
            (
                own.iteration,
                own.selection_precision,
                own.reachable,
                own.dev_precision,
                f"{own.dev:.4f}",
                own.changed_share,
                own.update,
            )
            for own in self.iterations
        ]
        notes = [
            f"Iteration {self.best.iteration} has the highest dev measure: it is the model.",
            f"{_SELECTION}: of the segments that are learned from; P@1 dev: of all segments.",
            f"Within reach: known passages in a segment learned from; {_SELECTION} cannot be higher.",
        ]
        dev = f"dev {self.measure}"
        names = ("iteration", _SELECTION, "within reach", "P@1 dev", dev, "changed", "update")
        return Table.of(names, rows, notes=notes)

    def draw(self) -> Figure:
        """The dev measure, P@1 of segments and the share of selections that changed, by iteration."""
        panels = {
            f"dev {self.measure}": {"dev": "dev"},
            "segment P@1": {"selection, train": "selection_precision", "dev": "dev_precision"},
            "selections changed": {"train": "changed"},
        }
        curves: dict[str, dict[str, list[float]]] = {panel: {} for panel in panels}
        for panel, lines in panels.items():
            for name, attribute in lines.items():
                values = [getattr(own, attribute) for own in self.iterations]
                curves[panel][name] = [math.nan if value is None else value for value in values]
        numbers = [own.iteration for own in self.iterations]
        return line_plot(curves, numbers, x_label="iteration", logarithmic=False)
