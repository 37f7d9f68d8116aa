"""Measures of each system: means over the queries and seeds, significance, time per query."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from statistics import fmean, stdev
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from telerank.errors import count_noun
from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.measures import Evaluation, average_evaluations
from telerank.evaluation.statistics import holm, paired_t, zero_noise
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.sizes import count_bytes
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    AnswerMeasures,
    Measures,
    PooledValues,
    Published,
    query_items,
)
from telerank.experiments.published import MS, paper_table
from telerank.records import Section
from telerank.show.tables import Cell, Table
from telerank.stage import Stage

MB = "MB"
_WARM_UP = 5  # queries that run first and are not counted: kernels are compiled, files are read


def time_stage(stage: Stage, bench: Bench, sample: int) -> dict[str, float]:
    """Milliseconds of wall time of single queries, one after another: not the throughput of a batch.

    The queries are drawn by the seed of the experiment; a few that run before them are not counted.
    """
    queries = list(bench.judged.queries)
    drawn = random.Random(bench.seed).sample(queries, min(sample, len(queries)))
    for query in drawn[:_WARM_UP]:
        stage.search(query)
    times = []
    for done, query in enumerate(drawn, 1):
        start = time.perf_counter()
        stage.search(query)
        times.append(1000.0 * (time.perf_counter() - start))
        bench.data.progress("timing", done, len(drawn))
    values = np.array(times)
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "p99": float(np.percentile(values, 99)),
        "queries": len(drawn),
    }


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
        f"{count_noun(queries, 'query')}, with Holm's correction over the "
        f"{count_noun(len(comparison.differences), 'test')} of this "
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
            f"{count_noun(self.queries, 'query')}, {how} for {count_noun(len(self.tests), 'test')}: "
            f"{names}. Bold: the best."
        )

    def table(self) -> Table:
        """A row for each test; a p below the level is strong."""
        return Table.of_rows(
            [
                {
                    **{key: test[key] for key in ("system", "other", "measure")},
                    "difference": f"{test['delta']:+.3f}",
                    "p": Cell(f"{test['p']:.4f}", strong=test["p"] < self.settings.level),
                    "p, Holm": Cell(f"{test['p_holm']:.4f}", strong=test["p_holm"] < self.settings.level),
                }
                for test in self.tests
            ],
            caption="Paired t-tests",
            left=3,
        )


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
    reader
        A model of the experiment that is trained as a reader, or given: it answers from the first documents
        of each system.
    answers
        Measures of its answers, in columns of their own.
    documents
        Documents that it reads for a question.
    examples
        Questions whose answers are shown, from the last system's documents.
    sizes
        The megabytes of postings, weights and vectors that each system searches.
    """

    kind: Literal["quality"]
    measures: Measures
    reader: str | None = None
    answers: AnswerMeasures = ("F1(fr)",)
    documents: int = Field(3, ge=1)
    examples: int = Field(0, ge=0)
    latency_queries: int = Field(100, ge=0)
    sizes: bool = False
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
        notes, tests = list[str](), list[Table]()
        if self.queries_of is not None and self.queries_of in bench.systems:
            with_run = {ranking.query.qid for ranking in bench.rankings(self.queries_of)}
            qrels = {qid: grades for qid, grades in qrels.items() if qid in with_run}
            said.append(f"Measured on the {count_noun(len(qrels), 'query')} that {self.queries_of} answers.")
        runs = {name: bench.measure(name, names, qrels) for name in bench.systems}
        if self.reader is not None:
            from telerank.experiments.answers.end_to_end import answer_questions

            answered = answer_questions(bench, self.reader, self.documents, self.answers, self.examples)
            runs = {name: [own.beside(answered.values[name]) for own in runs[name]] for name in runs}
            names, tests = (*names, *self.answers), answered.examples
            said.append(answered.note)
        by_seed = {name: [run.mean for run in own] for name, own in runs.items()}
        evaluations = {name: average_evaluations(own) for name, own in runs.items()}
        record: dict[str, Any] = {"queries": len(qrels), **_summarise(by_seed), **self._measure_costs(bench)}
        record["differences"] = []
        marks: Callable[[str, str], str] | None = None
        if self.baseline is not None and self.baseline in runs and len(runs) > 1:
            comparison = compare_evaluations(evaluations, [self.baseline])
            notes, marks = [describe_marks(comparison, self.baseline)], comparison.marks
            record["differences"] = record_differences(comparison)
            said.append(_describe_best(comparison))
        if self.tests and len(runs) > 1:
            pairs = compare_pairs(evaluations, names, self.tests)
            notes, marks, tests = [pairs.describe_marks()], pairs.marks, [pairs.table(), *tests]
            record["tests"] = pairs.tests
        table = _table(record, marks, bench.published, caption=self.title, notes=notes)
        said += _describe_costs(record)
        return AnalysisResult(
            (table, *tests),
            {**record, "published": bench.published},
            notes=tuple(said),
            items=query_items(evaluations, names),
        )

    def _measure_costs(self, bench: Bench) -> dict[str, Any]:
        """The times of each system that is a stage, and what it reads."""
        stages = {name: system.stage for name, system in bench.systems.items() if system.stage is not None}
        timed = stages if self.latency_queries else {}
        times = {name: time_stage(stage, bench, self.latency_queries) for name, stage in timed.items()}
        sizes = {"bytes": {name: count_bytes(stage) for name, stage in stages.items()}} if self.sizes else {}
        return {"latency_ms": times, **sizes}

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """With the tests of the pooled queries."""
        first, evaluations = next(iter(folds.items.values()), {}), {}
        qids = tuple(dict.fromkeys(qid for values in first.values() for qid in values))
        for system, values in first.items():
            if values.keys() == {*qids}:  # the system has been measured on each fold
                evaluations[system] = Evaluation(
                    qids,
                    {
                        name: np.array([fmean(rows[system][qid]) for qid in qids])
                        for name, rows in folds.items.items()
                    },
                )
        if self.tests is None or len(evaluations) < 2:
            return super().pool_folds(folds)
        pairs = compare_pairs(evaluations, tuple(folds.items), self.tests)
        columns = {
            column: {row: {**values, "marks": pairs.marks(row, column)} for row, values in rows.items()}
            for column, rows in folds.columns.items()
        }
        return AnalysisResult(
            (*folds.tables(pairs.marks, [pairs.describe_marks()]), pairs.table()),
            {"columns": columns, "tests": pairs.tests, "marks": pairs.describe_marks()},
        )


def _summarise(by_seed: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """The means of the systems over their seeds, with standard deviations."""

    def over_seeds(
        summary: Callable[[list[float]], float], runs: Mapping[str, Sequence[Mapping[str, float]]]
    ) -> dict[str, dict[str, float]]:
        return {
            system: {name: summary([mean[name] for mean in seeds]) for name in seeds[0]}
            for system, seeds in runs.items()
        }

    several = {system: seeds for system, seeds in by_seed.items() if len(seeds) > 1}
    return {
        "means": over_seeds(fmean, by_seed),
        "standard_deviation": over_seeds(stdev, several),
        "by_seed": several,
    }


def _table(
    record: Mapping[str, Any],
    marks: Callable[[str, str], str] | None,
    published: Published,
    *,
    caption: str,
    notes: Sequence[str],
) -> Table:
    """The measures of each system, the best strong, and its time, beside what a paper prints."""
    means, deviations = record["means"], record["standard_deviation"]
    names, rows = list(next(iter(means.values()))), dict[str, dict[str, str | Cell]]()
    for system, values in means.items():
        spreads, rows[system] = deviations.get(system, {}), {}
        for name, mean in values.items():
            spread = f" ± {spreads[name]:.3f}" if name in spreads else ""
            is_best = round(mean, 3) == max(round(own[name], 3) for own in means.values())
            rows[system][name] = Cell(f"{mean:.3f}{spread}", is_best, marks(system, name) if marks else "")
        if latency := record["latency_ms"].get(system):
            rows[system][MS] = f"{latency['mean']:.2f}"
        if system in record.get("bytes", {}):
            rows[system][MB] = f"{record['bytes'][system] / 1e6:.1f}"
    timed = MS in {*chain(*rows.values(), *published.values())}
    spread = "± is the standard deviation over the seeds of a training."
    notes = [*notes, *[spread] * bool(deviations)]
    return paper_table(
        rows,
        ["system", *names, *[MS] * timed, *[MB] * ("bytes" in record)],
        published,
        caption=caption,
        notes=notes,
    )


def _describe_costs(record: Mapping[str, Any]) -> list[str]:
    said, latencies = [], record["latency_ms"]
    if latencies:
        busy = ""
        if hasattr(os, "getloadavg"):  # above the number of cores, times are too long
            busy = f"; {os.getloadavg()[0]:.1f} processes were waiting or running"
        queries = next(iter(latencies.values()))["queries"]
        said.append(f"ms/query: wall time, one query at a time, mean of {queries} queries{busy}.")
    if "bytes" in record:
        said.append("MB: postings, weights and vectors on the disk, without texts and models.")
    return said


def _describe_best(comparison: Comparison) -> str:
    """The best of the other systems by the last measure."""
    (baseline,), name = comparison.baselines, comparison.measures[-1]
    means = {system: evaluation.mean[name] for system, evaluation in comparison.evaluations.items()}
    best = max((system for system in means if system != baseline), key=means.__getitem__)
    verdict = describe_difference(comparison, best, name)
    return f"{name} of {best} is {means[best]:.3f}, {verdict} {baseline}, {means[baseline]:.3f}."
