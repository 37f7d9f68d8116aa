"""The values of queries that folds of one collection have, pooled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import Any, TypeAlias

import numpy as np

from telerank.evaluation.measures import Evaluation
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.show.tables import Cell, Table, show_interval

Items: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Values by column, row and qid."""


@dataclass(frozen=True, eq=False)
class PooledValues:
    """The values of each fold, by its name."""

    by_fold: Mapping[str, Items]

    @cached_property
    def items(self) -> Items:
        """The values of all folds; a query may be in several."""
        return join_items(list(self.by_fold.values()))

    @cached_property
    def columns(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The mean of each fold, their mean and deviation, and the pooled mean with its interval."""
        return {
            column: {row: self._summarise(column, row, by_qid) for row, by_qid in rows.items()}
            for column, rows in self.items.items()
        }

    def _summarise(self, column: str, row: str, by_qid: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        folds = {}
        for name, items in self.by_fold.items():
            values = [value for each in items.get(column, {}).get(row, {}).values() for value in each]
            if values:
                folds[name] = fmean(values)
        sums = np.array([sum(values) for values in by_qid.values()])
        counts = np.array([len(values) for values in by_qid.values()])
        ((low, high),) = bootstrap_intervals([sums], counts)
        return {
            "folds": folds,
            "mean": fmean(folds.values()),
            "deviation": stdev(folds.values()) if len(folds) > 1 else None,
            "pooled": float(sums.sum() / counts.sum()),
            "low": low,
            "high": high,
            "queries": len(counts),
        }

    def tables(
        self, marks: Callable[[str, str], str] | None = None, notes: Sequence[str] = ()
    ) -> tuple[Table, ...]:
        """A table for each column: a row for each system, a column for each fold.

        With ``marks`` (row, column) the pooled values are marked, and the best of them is strong.
        """
        return tuple(self._table(column, rows, marks, notes) for column, rows in self.columns.items())

    def _table(
        self,
        column: str,
        rows: Mapping[str, Mapping[str, Any]],
        marks: Callable[[str, str], str] | None,
        notes: Sequence[str],
    ) -> Table:
        best = max(round(values["pooled"], 3) for values in rows.values())
        lines = []
        for row, values in rows.items():
            folds = (values["folds"].get(name) for name in self.by_fold)
            spread = "" if values["deviation"] is None else f" ± {values['deviation']:.3f}"
            is_best = marks is not None and round(values["pooled"], 3) == best
            pooled = Cell(f"{values['pooled']:.3f}", is_best, marks(row, column) if marks else "")
            interval = show_interval(values["low"], values["high"])
            lines.append((row, *folds, f"{values['mean']:.3f}{spread}", pooled, interval))
        counts = sorted({values["queries"] for values in rows.values()})
        over = f"{counts[-1]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        spread = "mean ± deviation of the folds"
        note = f"Pooled over {over} queries or folds, with the 95% bootstrap interval; {spread}."
        heads = ("system", *self.by_fold, "mean", "pooled", "95% interval")
        return Table.of(heads, lines, caption=f"{column} by fold", notes=[note, *notes])


def query_items(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], suffix: str = ""
) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The values of evaluations: a column for each measure, named with the suffix, a row for each system."""
    return {
        f"{name}{suffix}": {
            system: {qid: [value] for qid, value in evaluation.of(name).items()}
            for system, evaluation in evaluations.items()
        }
        for name in measures
    }


def join_items(parts: Sequence[Items]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """The values of all parts by column, row and qid; a query may be in several parts."""
    joined: dict[str, dict[str, dict[str, list[float]]]] = {}
    for items in parts:
        for column, rows in items.items():
            for row, by_qid in rows.items():
                own = joined.setdefault(column, {}).setdefault(row, {})
                for qid, values in by_qid.items():
                    own.setdefault(qid, []).extend(values)
    return joined
