"""Measures of each system: means over the queries and seeds, significance, time per query."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.latency import Latency, time_stage
from telerank.evaluation.measures import Evaluation, average_evaluations
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import Analysis, AnalysisResult, Items, Measures, PooledValues, query_items
from telerank.experiments.published import MS, paper_table
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
class TestedPairs:
    """The tests of every two systems by each measure, as JSON has them.

    A test has ``system``, ``other``, ``measure``, ``delta``, ``p`` of the t-test, and ``p_holm``, which is
    corrected over all of them.
    """

    systems: tuple[str, ...]
    tests: Sequence[Mapping[str, Any]]
    settings: PairedTests
    queries: int

    def marks(self, system: str, measure: str) -> str:
        """The numbers of the systems, counted from 1, that this one differs from significantly."""
        p = "p_holm" if self.settings.corrected else "p"
        tests = [test for test in self.tests if test["measure"] == measure and test[p] < self.settings.level]
        pairs = [{test["system"], test["other"]} for test in tests]
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
        rows = [
            {
                **{key: test[key] for key in ("system", "other", "measure")},
                "difference": f"{test['delta']:+.3f}",
                "p": Cell(f"{test['p']:.4f}", strong=test["p"] < self.settings.level),
                "p, Holm": Cell(f"{test['p_holm']:.4f}", strong=test["p_holm"] < self.settings.level),
            }
            for test in self.tests
        ]
        return Table.of_rows(rows, caption="Paired t-tests", left=3)


def compare_pairs(
    evaluations: Mapping[str, Evaluation], measures: Sequence[str], settings: PairedTests
) -> TestedPairs:
    """Test the difference of every two systems by each measure over the same queries."""
    tests: list[dict[str, Any]] = []
    for name in measures:
        for other, system in combinations(evaluations, 2):
            row = zero_noise(evaluations[system].values[name] - evaluations[other].values[name])
            pair = {"system": system, "other": other, "measure": name}
            tests.append({**pair, "delta": float(row.mean()), "p": paired_t(row)})
    for test, corrected in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test["p_holm"] = corrected
    return TestedPairs(tuple(evaluations), tests, settings, len(next(iter(evaluations.values())).qids))


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
        qrels, names, said = bench.judged.qrels, self.measures, list[str]()
        if self.queries_of is not None and self.queries_of in bench.systems:
            answered = {ranking.query.qid for ranking in bench.rankings(self.queries_of)}
            qrels = {qid: grades for qid, grades in qrels.items() if qid in answered}
            said.append(f"Measured on the {len(qrels):,} queries that {self.queries_of} answers.")
        runs = {name: bench.measure(name, names, qrels) for name in bench.systems}
        by_seed = {name: [run.mean for run in own] for name, own in runs.items()}
        latencies = self._time_systems(bench)
        evaluations = {name: average_evaluations(own) for name, own in runs.items()}
        record: dict[str, Any] = {"queries": len(qrels), **_summarise(by_seed, latencies), "differences": []}
        marks: Callable[[str, str], str] | None = None
        notes, tests = list[str](), list[Table]()
        if self.baseline in runs and len(runs) > 1:
            comparison = compare_evaluations(evaluations, [self.baseline], measures=names)
            notes, marks = [describe_marks(comparison, self.baseline)], comparison.marks
            record["differences"] = record_differences(comparison)
            said.append(_describe_best(comparison))
        if self.tests and len(runs) > 1:
            pairs = compare_pairs(evaluations, names, self.tests)
            notes, marks, tests = [pairs.describe_marks()], pairs.marks, [pairs.table()]
            record["tests"] = pairs.tests
        notes += ["± is the standard deviation over the seeds of a training."] * bool(
            record["standard_deviation"]
        )
        rows = _rows(record, marks)
        timed = any(MS in row for row in (*rows.values(), *bench.published.values()))
        columns = [*names, *[MS] * timed]
        table = paper_table(rows, columns, bench.published, caption=self.title, notes=notes)
        said += _describe_latency(latencies)
        return AnalysisResult(
            (table, *tests),
            {**record, "published": bench.published},
            notes=tuple(said),
            items=query_items(evaluations, names),
        )

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
        return AnalysisResult(
            (*folds.tables(pairs.marks, [pairs.describe_marks()]), pairs.table()),
            {"columns": columns, "tests": pairs.tests, "marks": pairs.describe_marks()},
        )


def _summarise(
    by_seed: Mapping[str, Sequence[Mapping[str, float]]], latencies: Mapping[str, Latency]
) -> dict[str, Any]:
    """The means of the systems over their seeds, with standard deviations, and their times."""
    several = {system: seeds for system, seeds in by_seed.items() if len(seeds) > 1}
    means, deviations = (
        {
            system: {name: summary(mean[name] for mean in seeds) for name in seeds[0]}
            for system, seeds in own.items()
        }
        for summary, own in ((fmean, by_seed), (stdev, several))
    )
    return {
        "means": means,
        "standard_deviation": deviations,
        "by_seed": several,
        "latency_ms": {name: asdict(latency) for name, latency in latencies.items()},
    }


def _rows(
    record: Mapping[str, Any], marks: Callable[[str, str], str] | None
) -> dict[str, dict[str, str | Cell]]:
    """The cells of each system: its measures, the best strong, and its time."""
    means, rows = record["means"], dict[str, dict[str, str | Cell]]()
    for system, values in means.items():
        spreads, rows[system] = record["standard_deviation"].get(system, {}), {}
        for name, mean in values.items():
            spread = f" ± {spreads[name]:.3f}" if name in spreads else ""
            best = max(round(own[name], 3) for own in means.values())
            is_best = round(mean, 3) == best
            rows[system][name] = Cell(f"{mean:.3f}{spread}", is_best, marks(system, name) if marks else "")
        if latency := record["latency_ms"].get(system):
            rows[system][MS] = f"{latency['mean']:.2f}"
    return rows


def _describe_latency(latencies: Mapping[str, Latency]) -> list[str]:
    if not latencies:
        return []
    busy = ""
    if hasattr(os, "getloadavg"):  # above the number of cores, times are too long
        busy = f"; {os.getloadavg()[0]:.1f} processes were waiting or running"
    queries = next(iter(latencies.values())).queries
    return [f"ms/query: wall time, one query at a time, mean of {queries} queries{busy}."]


def _describe_best(comparison: Comparison) -> str:
    """The best of the other systems by the last measure."""
    (baseline,), name = comparison.baselines, comparison.measures[-1]
    means = {system: evaluation.mean[name] for system, evaluation in comparison.evaluations.items()}
    best = max((system for system in means if system != baseline), key=means.__getitem__)
    verdict = describe_difference(comparison, best, name)
    return f"{name} of {best} is {means[best]:.3f}, {verdict} {baseline}, {means[baseline]:.3f}."
