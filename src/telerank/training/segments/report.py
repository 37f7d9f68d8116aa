"""What the iterations of BeST reached: a table and a plot (BeST, table 2)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, Field

from telerank.drafts import replace_file
from telerank.errors import ModelError
from telerank.records import read_record
from telerank.show.tables import Table, render_markdown

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
    """The share of the known passages of train that one of the segments learned from contains."""

    def describe(self, measure: str) -> str:
        """The values in a line."""
        values = {
            f"dev {measure}": f"{self.dev:.4f}",
            "P@1 of the selection": _cell(self.selection_precision),
            "within reach": _cell(self.reachable),
            "P@1 on dev": _cell(self.dev_precision),
            "changed": _share(self.changed),
        }
        shown = ", ".join(f"{name} {value}" for name, value in values.items() if value != "–")
        return f"iteration {self.iteration}: {shown}"


def write_result(folder: Path, result: IterationResult) -> None:
    """Write the result of an iteration into its folder."""
    replace_file(folder / RESULT, f"{json.dumps(asdict(result), indent=2)}\n".encode())


def read_result(folder: Path) -> IterationResult | None:
    """The result of the iteration in ``folder``; None if it is not over.

    Raises ModelError if it is damaged.
    """
    path = folder / RESULT
    return read_record(path, IterationResult, ModelError) if path.exists() else None


def best_iteration(results: Sequence[IterationResult]) -> IterationResult:
    """The iteration with the highest dev measure; of equal ones the first."""
    return max(results, key=lambda result: (result.dev, -result.iteration))


def write_results(output: Path, results: Sequence[IterationResult], measure: str) -> None:
    """Write the table, its values and the plot into the folder of the training."""
    from telerank.show.plots import save_plot

    record = {"measure": measure, "iterations": [asdict(result) for result in results]}
    replace_file(output / RESULTS, f"{json.dumps(record, indent=2)}\n".encode())
    table = tabulate(results, measure)
    replace_file((output / RESULTS).with_suffix(".md"), render_markdown(table).encode())
    figure = draw(results, measure)
    for name in PLOTS:
        save_plot(figure, output / name)


def read_table(output: Path) -> Table:
    """The table of a training's iterations. Raises ModelError if its values are damaged."""
    measure, results = read_iterations(output)
    return tabulate(results, measure)


def read_iterations(output: Path) -> tuple[str, list[IterationResult]]:
    """The dev measure and the iterations of a training. Raises ModelError if the values are damaged."""
    record = read_record(output / RESULTS, _Results, ModelError)
    return record.measure, record.iterations


@dataclass(frozen=True)
class _Results:
    measure: str
    iterations: list[IterationResult]


def tabulate(results: Sequence[IterationResult], measure: str) -> Table:
    """A row for each iteration."""
    rows = [
        (
            str(own.iteration),
            _cell(own.selection_precision),
            _cell(own.reachable),
            _cell(own.dev_precision),
            f"{own.dev:.4f}",
            _share(own.changed),
            f"{own.update:,}",
        )
        for own in results
    ]
    best = best_iteration(results).iteration
    notes = [
        f"Iteration {best} has the highest dev measure: it is the model.",
        f"{_SELECTION}: of the segments that are learned from; P@1 dev: of all segments.",
        f"Within reach: known passages in a segment learned from; {_SELECTION} cannot be higher.",
    ]
    names = ("iteration", _SELECTION, "within reach", "P@1 dev", f"dev {measure}", "changed", "update")
    return Table.of(names, rows, notes=notes)


def draw(results: Sequence[IterationResult], measure: str) -> Figure:
    """The dev measure, P@1 of segments and the share of selections that changed, by iteration."""
    from telerank.show.plots import line_plot

    lines: dict[str, dict[str, list[float | None]]] = {
        f"dev {measure}": {"dev": [*(own.dev for own in results)]},
        "segment P@1": {
            "selection, train": [own.selection_precision for own in results],
            "dev": [own.dev_precision for own in results],
        },
        "selections changed": {"train": [own.changed for own in results]},
    }
    panels = {
        panel: {name: [math.nan if value is None else value for value in own] for name, own in named.items()}
        for panel, named in lines.items()
    }
    return line_plot(panels, [own.iteration for own in results], x_label="iteration", logarithmic=False)


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
