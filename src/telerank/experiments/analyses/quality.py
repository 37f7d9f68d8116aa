"""Measures of each system: means over the queries and seeds, significance, time per query."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.latency import Latency, time_stage
from telerank.evaluation.measures import Evaluation, average_evaluations
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Items, Measures, PooledValues, query_items
from telerank.experiments.published import SystemQuality, quality_table
from telerank.records import Section
from telerank.show.tables import Cell, Table


class PairedTests(Section):
    """Paired t-tests of every two systems, as a paper reports them (BeST: p < 0.01, not corrected).

    Attributes
    ----------
    level
        A difference is significant if its p is below.
    corrected
        Whether p is corrected by Holm's method for the superscripts; a table has both in any case.
    """

    level: float = Field(0.01, gt=0, lt=1)
    corrected: bool = False


def describe_marks(comparison: Comparison, baseline: str) -> str:
    """What the mark in a table means; ``baseline`` is the text for the baseline."""
    (name,) = comparison.baselines
    queries = len(comparison.evaluations[name].qids)
    return (
        f"{comparison.mark(name)} differs from {baseline}: p < {comparison.level:g} in a paired t-test over "
        f"{queries:,} queries, with Holm's correction over the {len(comparison.differences)} tests of this "
        "table. Bold: the best."
    )


def describe_difference(comparison: Comparison, system: str, measure: str) -> str:
    """``significantly above`` the baseline, ``not significantly below`` it."""
    (name,) = comparison.baselines
    verdict = "significantly" if comparison.marks(system, measure) else "not significantly"
    above = comparison.difference(system, name, measure).delta > 0
    return f"{verdict} {'above' if above else 'below'}"


def record_differences(comparison: Comparison) -> list[dict[str, Any]]:
    """The differences, without the queries that changed most."""
    return [
        {key: value for key, value in asdict(difference).items() if key != "changed"}
        for difference in comparison.differences
    ]


@dataclass(frozen=True)
class PairedTest:
    """The difference of two systems by a measure, the p of its t-test, and the same corrected."""

    system: str
    other: str
    measure: str
    delta: float
    p: float
    p_holm: float


@dataclass(frozen=True)
class TestedPairs:
    """The tests of every two systems by each measure; ``p_holm`` is corrected over all of them."""

    systems: tuple[str, ...]
    tests: tuple[PairedTest, ...]
    settings: PairedTests
    queries: int

    def marks(self, system: str, measure: str) -> str:
        """The numbers of the systems, counted from 1, that this one differs from significantly."""
        pairs = [
            {test.system, test.other}
            for test in self.tests
            if test.measure == measure
            and (test.p_holm if self.settings.corrected else test.p) < self.settings.level
        ]
        numbers = [str(number) for number, other in enumerate(self.systems, 1) if {system, other} in pairs]
        return ("," if len(self.systems) > 9 else "").join(numbers)

    def describe_marks(self) -> str:
        """What the superscripts mean."""
        names = ", ".join(f"{number} {name}" for number, name in enumerate(self.systems, 1))
        how = "with Holm's correction" if self.settings.corrected else "not corrected"
        return (
            f"Superscripts are the systems that differ, p < {self.settings.level:g} in a paired t-test over "
            f"{self.queries:,} queries, {how} for {len(self.tests)} tests: {names}. Bold: the best."
        )

    def table(self) -> Table:
        """A row for each test; a p below the level is strong."""

        def cell(p: float) -> Cell:
            return Cell(f"{p:.4f}", strong=p < self.settings.level)

        rows: list[list[str | Cell]] = [
            [test.system, test.other, test.measure, f"{test.delta:+.3f}", cell(test.p), cell(test.p_holm)]
            for test in self.tests
        ]
        columns = ("system", "other", "measure", "difference", "p", "p, Holm")
        return Table.of(columns, rows, caption="Paired t-tests", left=3)

    def record(self) -> list[dict[str, Any]]:
        return [asdict(test) for test in self.tests]


def compare_pairs(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], settings: PairedTests
) -> TestedPairs:
    """Test the difference of every two systems by each measure over the same queries."""
    tests = []
    for name in measures:
        for other, system in combinations(evaluations, 2):
            row = zero_noise(evaluations[system].values[name] - evaluations[other].values[name])
            p = paired_t(row)
            tests.append(PairedTest(system, other, name, float(row.mean()), p, p))
    corrected = holm([test.p for test in tests])
    final = tuple(replace(test, p_holm=p) for test, p in zip(tests, corrected, strict=True))
    return TestedPairs(tuple(evaluations), final, settings, len(next(iter(evaluations.values())).qids))


def compare_items(items: Items, settings: PairedTests) -> TestedPairs | None:
    """The same tests by the values of each query, of the systems that have those of all queries.

    None if there are fewer than two.
    """
    rows = next(iter(items.values()), {})
    qids = tuple(dict.fromkeys(qid for values in rows.values() for qid in values))
    evaluations = {
        system: Evaluation(
            qids, {name: np.array([fmean(own[system][qid]) for qid in qids]) for name, own in items.items()}
        )
        for system, values in rows.items()
        if values.keys() == {*qids}
    }
    return compare_pairs(evaluations, tuple(items), settings) if len(evaluations) > 1 else None


class QualityAnalysis(Analysis):
    """Measures of each system, and milliseconds per query.

    Attributes
    ----------
    latency_queries
        Number of queries that are timed, drawn by the seed of the experiment; 0: none.
    baseline
        The system that the others are compared with; significant differences are marked.
    tests
        Compare every two systems instead: superscripts are the numbers of the systems that differ.
    queries_of
        Measure only the queries that this system's run answers.
    """

    kind: Literal["quality"]
    measures: Measures
    latency_queries: int = Field(100, ge=0)
    baseline: str | None = None
    tests: PairedTests | None = None
    queries_of: str | None = None

    named_by: ClassVar[tuple[str, ...]] = ("baseline", "queries_of")

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
