"""Experiments on the folds of one collection, pooled: each value of each fold, and over all queries.

Data of the same ``pool`` are folds: what one measures, no other one does. Every analysis that keeps the
values of its queries (``quality``, ``positions``, ``behind-first``, ``segments``, ``iterations``) is pooled.
The tests of ``quality`` and ``behind-first`` are those of the pooled queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from telerank.drafts import replace_file
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.experiments.analyses.bench import AnalysisResult, Items
from telerank.experiments.analyses.significance import TestedPairs, compare_items
from telerank.experiments.analyses.specs import AnalysisSpec, BehindFirstSpec, IterationsSpec, QualitySpec
from telerank.experiments.report import (
    RESULTS,
    TABLES,
    TIMES,
    ExperimentOutcome,
    describe_time,
    record_times,
)
from telerank.show.report import to_json
from telerank.show.tables import Cell, Table, render_markdown
from telerank.stored import versions


@dataclass(frozen=True, eq=False)
class PooledOutcome:
    """What came of an experiment on the folds of ``pool``: pooled ``results``, and files in ``folder``."""

    title: str
    pool: str
    folds: tuple[ExperimentOutcome, ...]
    results: tuple[AnalysisResult, ...]
    folder: Path

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the tables must know."""
        names = ", ".join(fold.data.name for fold in self.folds)
        pooled = f"Pooled over the folds {names}, each measured with models that learned from others"
        said = (note for result in self.results for note in result.notes)
        return (f"{pooled}.", *said)

    @property
    def seconds(self) -> float:
        """How long the folds took together."""
        return sum(fold.seconds for fold in self.folds)

    @property
    def time(self) -> str:
        """How long the folds took together, as text."""
        return describe_time(self.seconds)


def pool_outcomes(outcomes: Sequence[ExperimentOutcome], folder: Path, pool: str) -> PooledOutcome:
    """Pool the analyses of the folds, and write tables, values and plots into ``folder``."""
    specs = outcomes[0].spec.analyses
    names = [outcome.data.name for outcome in outcomes]
    results = tuple(
        _pool(spec, dict(zip(names, (outcome.results[number].items for outcome in outcomes), strict=True)))
        for number, spec in enumerate(specs)
    )
    pooled = PooledOutcome(f"{outcomes[0].title}, {pool}", pool, tuple(outcomes), results, folder)
    _write(pooled, specs)
    return pooled


def _pool(spec: AnalysisSpec, by_fold: Mapping[str, Items]) -> AnalysisResult:
    by_fold = {name: items for name, items in by_fold.items() if items}
    if not by_fold:
        return AnalysisResult((), {"columns": {}}, notes=(f"Not pooled: {spec.title or spec.kind}.",))
    items = join_items(list(by_fold.values()))
    columns = {column: dict(_summarise(column, items[column], by_fold)) for column in items}
    record: dict[str, Any] = {"columns": columns}
    pairs = compare_items(items, spec.tests) if isinstance(spec, QualitySpec) and spec.tests else None
    if pairs is not None:
        record |= {"tests": pairs.record(), "marks": pairs.describe_marks()}
        for column, rows in columns.items():
            for row, own in rows.items():
                own["marks"] = pairs.marks(row, column)
    tables = [_fold_table(column, rows, list(by_fold), pairs) for column, rows in columns.items()]
    if pairs is not None:
        tables.append(pairs.table())
    if isinstance(spec, BehindFirstSpec):
        from telerank.experiments.analyses.long_documents.behind_first import compare_groups

        compared, differences = compare_groups(items, spec)
        return AnalysisResult((compared, *tables), record | differences)
    if not isinstance(spec, IterationsSpec):
        return AnalysisResult(tuple(tables), record)
    from telerank.experiments.analyses.long_documents.iterations import (
        correlate,
        iterations_table,
        plot_items,
    )

    whole = iterations_table(items, {}, caption=spec.title)
    return AnalysisResult((whole, *tables), record, plot_items(items), correlate(items))


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


def _summarise(
    column: str, rows: Mapping[str, Mapping[str, Sequence[float]]], by_fold: Mapping[str, Items]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The mean of each fold, their mean and deviation, and the pooled mean with its interval, by row."""
    for row, by_qid in rows.items():
        folds = {}
        for name, items in by_fold.items():
            values = [value for own in items.get(column, {}).get(row, {}).values() for value in own]
            if values:
                folds[name] = fmean(values)
        sums = np.array([sum(values) for values in by_qid.values()])
        counts = np.array([len(values) for values in by_qid.values()])
        ((low, high),) = bootstrap_intervals([sums], counts)
        yield (
            row,
            {
                "folds": folds,
                "mean": fmean(folds.values()),
                "deviation": stdev(folds.values()) if len(folds) > 1 else None,
                "pooled": float(sums.sum() / counts.sum()),
                "low": low,
                "high": high,
                "queries": len(counts),
            },
        )


def _fold_table(
    column: str, rows: Mapping[str, Mapping[str, Any]], names: Sequence[str], pairs: TestedPairs | None
) -> Table:
    """A row for each system; with tests, the pooled values are marked, and the best is strong."""
    lines: list[list[str | Cell]] = []
    best = max(round(own["pooled"], 3) for own in rows.values())
    for row, own in rows.items():
        folds = [f"{own['folds'][name]:.3f}" if name in own["folds"] else "–" for name in names]
        spread = "" if own["deviation"] is None else f" ± {own['deviation']:.3f}"
        interval = f"{own['low']:.3f} to {own['high']:.3f}"
        is_best = pairs is not None and round(own["pooled"], 3) == best
        pooled = Cell(f"{own['pooled']:.3f}", is_best, own.get("marks", ""))
        lines.append([row, *folds, f"{own['mean']:.3f}{spread}", pooled, interval])
    counts = sorted({own["queries"] for own in rows.values()})
    over = f"{counts[-1]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    spread = "mean ± deviation of the folds"
    notes = [f"Pooled over {over} queries or folds, with the 95% bootstrap interval; {spread}."]
    notes += [] if pairs is None else [pairs.describe_marks()]
    heads = ("system", *names, "mean", "pooled", "95% interval")
    return Table.of(heads, lines, caption=f"{column} by fold", notes=notes)


def _write(pooled: PooledOutcome, specs: Sequence[AnalysisSpec]) -> None:
    from telerank.show.plots import save_plot

    pooled.folder.mkdir(parents=True, exist_ok=True)
    for result in pooled.results:
        for name, figure in result.plots.items():
            for form in ("svg", "png"):
                save_plot(figure, pooled.folder / f"{name}.{form}")
    tables = [render_markdown(table) for result in pooled.results for table in result.tables]
    text = "\n".join([f"# {pooled.title}\n", *tables, *(f"- {note}" for note in pooled.notes)])
    pairs = zip(specs, pooled.results, strict=True)
    record = {
        "pool": pooled.pool,
        "folds": [fold.folder.name for fold in pooled.folds],
        "results": [{"kind": spec.kind, "title": spec.title, **own.record} for spec, own in pairs],
        "notes": pooled.notes,
        "versions": versions(),
    }
    replace_file(pooled.folder / TABLES, f"{text}\n".encode())
    replace_file(pooled.folder / TIMES, to_json(record_times(pooled.seconds)).encode())
    replace_file(pooled.folder / RESULTS, to_json(record).encode())
