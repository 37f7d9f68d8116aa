"""Experiments on the folds of one collection, pooled: each value of each fold, and over all queries.

Data of the same ``pool`` are folds: what one measures, no other one does. Every analysis that keeps the
values of its queries (``quality``, ``positions``, ``behind-first``, ``segments``, ``iterations``) is pooled.
The tests of ``quality`` and ``behind-first`` are those of the pooled queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from telerank.drafts import replace_file
from telerank.experiments.analysis import Analysis, AnalysisResult
from telerank.experiments.pooled_values import Items, PooledValues
from telerank.experiments.report import (
    RESULTS,
    TABLES,
    TIMES,
    ExperimentOutcome,
    describe_time,
    record_times,
)
from telerank.show.report import to_json
from telerank.show.tables import render_markdown
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


def _pool(spec: Analysis, by_fold: Mapping[str, Items]) -> AnalysisResult:
    """The analysis of the folds that have values of it."""
    folds = {name: items for name, items in by_fold.items() if items}
    if not folds:
        return AnalysisResult((), {"columns": {}}, notes=(f"Not pooled: {spec.title or spec.kind}.",))
    return spec.pool_folds(PooledValues(folds))


def _write(pooled: PooledOutcome, specs: Sequence[Analysis]) -> None:
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
