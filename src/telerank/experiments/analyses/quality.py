"""Measures of each system: means over the queries and seeds, significance, time per query."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from telerank.evaluation.compare import Comparison, compare_evaluations
from telerank.evaluation.latency import Latency, time_stage
from telerank.evaluation.measures import Evaluation, measure
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Items
from telerank.experiments.analyses.significance import (
    compare_pairs,
    describe_difference,
    describe_marks,
    record_differences,
)
from telerank.experiments.analyses.specs import QualitySpec
from telerank.experiments.published import SystemQuality, quality_table
from telerank.types import Qrels


def analyse_quality(bench: Bench, spec: QualitySpec) -> AnalysisResult:
    """Measure and time each system, and compare it with the baseline."""
    qrels, names = _select_qrels(bench, spec), spec.measures
    by_seed = {name: _measure_runs(bench, name, qrels, names) for name in bench.systems}
    several = any(len(runs) > 1 for runs in by_seed.values())
    latencies = _time_systems(bench, spec)
    evaluations = {name: _average(runs) for name, runs in by_seed.items()}
    comparison = None
    if spec.baseline in by_seed and len(by_seed) > 1:
        comparison = compare_evaluations(evaluations, [spec.baseline], measures=names)
    pairs = compare_pairs(evaluations, names, spec.tests) if spec.tests and len(by_seed) > 1 else None
    marked = comparison or pairs
    systems = {}
    for name, runs in by_seed.items():
        marks = {column: marked.marks(name, column) for column in names} if marked else {}
        systems[name] = _summarise(runs, latencies.get(name), marks)
    notes = [describe_marks(comparison, *comparison.baselines)] if comparison else []
    notes += [pairs.describe_marks()] if pairs else []
    notes += ["± is the standard deviation over the seeds of a training."] if several else []
    table = quality_table(systems, bench.published, names, caption=spec.title, notes=notes)
    record = {
        "queries": len(qrels),
        "means": {name: system.mean for name, system in systems.items()},
        "standard_deviation": {name: system.spread for name, system in systems.items() if system.spread},
        "by_seed": {name: [run.mean for run in runs] for name, runs in by_seed.items() if len(runs) > 1},
        "latency_ms": {name: asdict(latency) for name, latency in latencies.items()},
        "differences": record_differences(comparison) if comparison else [],
        **({"tests": pairs.record()} if pairs else {}),
        "published": bench.published,
    }
    tables = (table, pairs.table()) if pairs else (table,)
    said = tuple(_notes(bench, spec, qrels, comparison, latencies))
    return AnalysisResult(tables, record, notes=said, items=_items(evaluations, names))


def _items(evaluations: Mapping[str, Evaluation], measures: Sequence[str]) -> Items:
    """The value of each query by measure and system."""
    return {
        name: {
            system: {
                qid: [value]
                for qid, value in zip(own.qids, np.asarray(own.values[name]).tolist(), strict=True)
            }
            for system, own in evaluations.items()
        }
        for name in measures
    }


def _select_qrels(bench: Bench, spec: QualitySpec) -> Qrels:
    if spec.queries_of is None or spec.queries_of not in bench.systems:
        return bench.judged.qrels
    answered = {ranking.query.qid for ranking in bench.rankings(spec.queries_of)}
    return {qid: grades for qid, grades in bench.judged.qrels.items() if qid in answered}


def _measure_runs(bench: Bench, name: str, qrels: Qrels, measures: Sequence[str]) -> list[Evaluation]:
    runs = range(len(bench.systems[name].runs))
    return [measure(bench.rankings(name, run), qrels, measures, progress=bench.data.progress) for run in runs]


def _average(runs: Sequence[Evaluation]) -> Evaluation:
    """The values of each query, averaged over the seeds."""
    values = {name: np.mean([run.values[name] for run in runs], axis=0) for name in runs[0].measures}
    return Evaluation(runs[0].qids, values)


def _time_systems(bench: Bench, spec: QualitySpec) -> dict[str, Latency]:
    queries, sample, progress = bench.judged.queries, spec.latency_queries, bench.data.progress
    return {
        name: time_stage(system.stage, queries, sample=sample, seed=bench.seed, progress=progress)
        for name, system in bench.systems.items()
        if sample and system.stage is not None
    }


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


def _notes(
    bench: Bench,
    spec: QualitySpec,
    qrels: Qrels,
    comparison: Comparison | None,
    latencies: Mapping[str, Latency],
) -> Iterator[str]:
    if spec.queries_of in bench.systems:
        yield f"Measured on the {len(qrels):,} queries that {spec.queries_of} answers."
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
