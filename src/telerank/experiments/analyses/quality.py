"""Measures of each system: means over the queries and seeds, significance, time per query."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.latency import Latency, time_stage
from telerank.evaluation.measures import Evaluation, average_evaluations
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.significance import (
    PairedTests,
    compare_items,
    compare_pairs,
    describe_difference,
    describe_marks,
    record_differences,
)
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Measures,
)
from telerank.experiments.pooled_values import PooledValues, query_items
from telerank.experiments.published import SystemQuality, quality_table


class QualityAnalysis(Analysis):
    """Measures of each system, and milliseconds per query."""

    kind: Literal["quality"]
    measures: Measures
    latency_queries: int = Field(100, ge=0)
    """Number of queries that are timed, drawn by the seed of the experiment; 0: none."""
    baseline: str | None = None
    """The system that the others are compared with; significant differences are marked."""
    tests: PairedTests | None = None
    """Compare every two systems instead: superscripts are the numbers of the systems that differ."""
    queries_of: str | None = None
    """Measure only the queries that this system's run answers."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, *filter(None, (self.baseline, self.queries_of)))

    @property
    def quality_measures(self) -> tuple[str, ...]:
        return self.measures

    @model_validator(mode="after")
    def _check_tests(self) -> Self:
        if self.tests and self.baseline:
            raise ValueError("tests of every two systems have no baseline: leave out `baseline` or `tests`")
        return self

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure and time each system, and compare it with the baseline."""
        qrels, names = bench.judged.qrels, self.measures
        queries_of = self.queries_of if self.queries_of in bench.systems else None
        if queries_of is not None:
            answered = {ranking.query.qid for ranking in bench.rankings(queries_of)}
            qrels = {qid: grades for qid, grades in qrels.items() if qid in answered}
        by_seed = {name: bench.measure(name, names, qrels) for name in bench.systems}
        latencies = self._time_systems(bench)
        evaluations = {name: average_evaluations(runs) for name, runs in by_seed.items()}
        comparison = pairs = None
        if self.baseline in by_seed and len(by_seed) > 1:
            comparison = compare_evaluations(evaluations, [self.baseline], measures=names)
        if self.tests and len(by_seed) > 1:
            pairs = compare_pairs(evaluations, names, self.tests)
        marked = comparison or pairs
        systems = {}
        for name, runs in by_seed.items():
            marks = {column: marked.marks(name, column) for column in names} if marked else {}
            systems[name] = _summarise(runs, latencies.get(name), marks)
        notes = [describe_marks(comparison, *comparison.baselines)] if comparison else []
        notes += [pairs.describe_marks()] if pairs else []
        if any(system.spread for system in systems.values()):
            notes.append("± is the standard deviation over the seeds of a training.")
        table = quality_table(systems, bench.published, names, caption=self.title, notes=notes)
        tables = (table, pairs.table()) if pairs else (table,)
        record = {
            "queries": len(qrels),
            **_record(systems, by_seed, latencies),
            "differences": record_differences(comparison) if comparison else [],
            **({"tests": pairs.record()} if pairs else {}),
            "published": bench.published,
        }
        said = tuple(
            _notes(
                self.queries_of if self.queries_of in bench.systems else None,
                len(qrels),
                comparison,
                latencies,
            )
        )
        return AnalysisResult(tables, record, notes=said, items=query_items(evaluations, names))

    def _time_systems(self, bench: Bench) -> dict[str, Latency]:
        sample, seed, progress = self.latency_queries, bench.seed, bench.data.progress
        return {
            name: time_stage(system.stage, bench.judged.queries, sample=sample, seed=seed, progress=progress)
            for name, system in bench.systems.items()
            if sample and system.stage is not None
        }

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """With the tests of the pooled queries."""
        pairs = compare_items(folds.items, self.tests) if self.tests else None
        if pairs is None:
            return super().pool_folds(folds)
        columns = {
            column: {row: {**values, "marks": pairs.marks(row, column)} for row, values in rows.items()}
            for column, rows in folds.columns.items()
        }
        tables = (*folds.tables(pairs.marks, [pairs.describe_marks()]), pairs.table())
        record = {"columns": columns, "tests": pairs.record(), "marks": pairs.describe_marks()}
        return AnalysisResult(tables, record)


def _summarise(
    runs: Sequence[Evaluation], latency: Latency | None, marks: Mapping[str, str]
) -> SystemQuality:
    means = [run.mean for run in runs]
    by_measure = {name: [mean[name] for mean in means] for name in runs[0].measures}
    return SystemQuality(
        {name: statistics.fmean(values) for name, values in by_measure.items()},
        {name: statistics.stdev(values) for name, values in by_measure.items()} if len(runs) > 1 else {},
        latency,
        marks,
    )


def _record(
    systems: Mapping[str, SystemQuality],
    by_seed: Mapping[str, Sequence[Evaluation]],
    latencies: Mapping[str, Latency],
) -> dict[str, Any]:
    return {
        "means": {name: system.mean for name, system in systems.items()},
        "standard_deviation": {name: system.spread for name, system in systems.items() if system.spread},
        "by_seed": {name: [run.mean for run in runs] for name, runs in by_seed.items() if len(runs) > 1},
        "latency_ms": {name: asdict(latency) for name, latency in latencies.items()},
    }


def _notes(
    queries_of: str | None, queries: int, comparison: Comparison | None, latencies: Mapping[str, Latency]
) -> Iterator[str]:
    if queries_of is not None:
        yield f"Measured on the {queries:,} queries that {queries_of} answers."
    if comparison is not None:
        yield _describe_best(comparison)
    for latency in list(latencies.values())[:1]:
        # above the number of cores, times are too long
        busy = (
            f"; {os.getloadavg()[0]:.1f} processes were waiting or running"
            if hasattr(os, "getloadavg")
            else ""
        )
        yield f"ms/query: wall time, one query at a time, mean of {latency.queries} queries{busy}."


def _describe_best(comparison: Comparison) -> str:
    """The best of the other systems by the last measure."""
    (baseline,), name = comparison.baselines, comparison.measures[-1]
    means = {system: evaluation.mean[name] for system, evaluation in comparison.evaluations.items()}
    best = max((system for system in means if system != baseline), key=means.__getitem__)
    verdict = describe_difference(comparison, best, name)
    return f"{name} of {best} is {means[best]:.3f}, {verdict} {baseline}, {means[baseline]:.3f}."
