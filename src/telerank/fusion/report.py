"""Tables of combinations and of tuned weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.report import format_change, format_p
from telerank.show.tables import Cell, Table

if TYPE_CHECKING:
    from telerank.fusion.matrix import CombinationMatrix
    from telerank.fusion.tuning import FusionTuning

_MARK = "†"
FUSED = "fused, held out"


def matrix_table(matrix: CombinationMatrix, measure: str) -> Table:
    """A row per first run, a column per second run, like tables 3 and 4 of RepBERT.

    The best of each row is strong; the diagonal shows the run alone.
    """
    rows: list[list[str | Cell]] = []
    for first in matrix.runs:
        means = {
            second: matrix.alone[first][measure]
            if first == second
            else matrix.cell(first, second, measure).mean
            for second in matrix.runs
        }
        best = max(round(mean, 3) for mean in means.values())
        row: list[str | Cell] = [first]
        for second, mean in means.items():
            strong = round(mean, 3) == best
            if first == second:
                row.append(Cell(f"{mean:.3f}{' ' * 7}", strong=strong))
                continue
            cell = matrix.cell(first, second, measure)
            marks = _MARK if cell.p_holm < matrix.level else ""
            row.append(
                Cell(
                    f"{mean:.3f} {format_change(mean, matrix.alone[first][measure]):>6}",
                    strong=strong,
                    marks=marks,
                )
            )
        rows.append(row)
    note = (
        "In brackets the change from the row's run alone, which is on the diagonal; "
        f"{_MARK} p < {matrix.level:g} (paired t-test over {matrix.queries} queries, Holm's correction over "
        "all cells of all measures)."
    )
    columns = ("", *(f"+ {name}" for name in matrix.runs))
    return Table.of(columns, rows, caption=measure, notes=[note])


def format_weights(weights: Sequence[float]) -> str:
    """``0.4 + 0.6``."""
    return " + ".join(f"{weight:.4g}" for weight in weights)


def weights_table(tuning: FusionTuning, *, most: int = 10) -> Table:
    """The best weights on all queries, the best first."""
    result = tuning.result
    best_first = sorted(zip(result.settings, result.dev, strict=True), key=lambda pair: -pair[1])[:most]
    rows = [[format_weights(weights), f"{value:.4f}"] for weights, value in best_first]
    caption = f"The best {len(rows)} of {len(result.settings)} weights, in sample"
    return Table.of((" + ".join(tuning.alone), tuning.measure), rows, caption=caption)


def worth_table(tuning: FusionTuning) -> Table:
    """The gain from fusion: each run alone, the tuned weights in sample and held out, the oracle."""
    comparison = _compare(tuning)
    rows: list[list[str | Cell]] = [
        [name, "", f"{evaluation.mean[tuning.measure]:.4f}", "", ""]
        for name, evaluation in tuning.alone.items()
    ]
    rows.append(["fused, in sample", "", f"{tuning.in_sample:.4f}", "", ""])
    for i, name in enumerate(tuning.alone):
        row = comparison.difference(FUSED, name, tuning.measure)
        value = Cell(f"{tuning.held_out:.4f}" if i == 0 else "", strong=True)
        interval = f"{row.delta:+.4f} [{row.low:+.4f}, {row.high:+.4f}]"
        rows.append([FUSED if i == 0 else "", name, value, interval, format_p(row.p_holm)])
    rows.append(["fused, oracle", "", f"{tuning.oracle:.4f}", "", ""])
    notes = (
        "In sample: the best weights on all queries, measured on the same queries.",
        "Held out: each query under weights that the other folds chose.",
        "Oracle: each query under the weights best for itself, an upper bound of any choice.",
        "Difference: with its 95% bootstrap interval; p of a paired t-test with Holm's correction.",
    )
    columns = ("", "against", tuning.measure, "difference", "p")
    return Table.of(columns, rows, caption="What fusion is worth", notes=notes, left=2)


def _compare(tuning: FusionTuning) -> Comparison:
    qids = tuning.result.evaluation.qids
    systems = {name: alone.select(qids) for name, alone in tuning.alone.items()}
    return compare_evaluations(
        {**systems, FUSED: tuning.result.evaluation}, tuple(tuning.alone), measures=[tuning.measure]
    )
