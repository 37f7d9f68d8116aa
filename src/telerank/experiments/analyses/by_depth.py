"""Analyses of each system's first n documents, by n (RepBERT, figures 1 and 2, table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import tee
from typing import Any

import numpy as np

from telerank.dense.retriever import DenseRetriever
from telerank.errors import MissingExtra, ModelError
from telerank.evaluation.depth import (
    Reranker,
    RerankingByDepth,
    measure_consistency,
    measure_reranking,
    read_candidates,
    rerank_by_scores,
)
from telerank.evaluation.measures import measure
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import ConsistencySpec, RecallSpec, RerankingSpec
from telerank.experiments.published import depth_tables
from telerank.show.plots import Panels, line_plot
from telerank.show.tables import Table
from telerank.stage import Stage
from telerank.trec import read_run
from telerank.types import Ranking


def analyse_recall(bench: Bench, spec: RecallSpec) -> AnalysisResult:
    """Measure R@n of each system for each depth n (figure 1a)."""
    names = [f"R@{depth}" for depth in spec.depths]
    curves = {}
    for system in bench.systems:
        mean = measure(bench.rankings(system), bench.judged.qrels, names, progress=bench.data.progress).mean
        curves[system] = tuple(mean[name] for name in names)
    tables = depth_tables(curves, spec.depths, bench.published, caption=spec.title or "Recall by depth")
    return _make_result(bench, spec, tables, {"R": curves}, recall=curves)


def analyse_reranking(bench: Bench, spec: RerankingSpec) -> AnalysisResult:
    """Re-rank each system by the first re-ranker that is available (table 2 and figure 1b)."""
    name, measured, failures = _measure_first(bench, spec)
    curves = {system: by_depth.of(spec.measure) for system, by_depth in measured.items()}
    unscored = {system: by_depth.unscored for system, by_depth in measured.items()}
    caption = spec.title or f"{spec.measure} of the first n, re-ranked; {name}"
    tables = depth_tables(curves, spec.depths, bench.published, caption=caption, changes=True)
    first = next(iter(spec.rerankers))
    notes = [f"Not measured: {reason}." for reason in failures]
    notes += [] if name == first else [f"Re-ranked by {name}; the paper's values are of {first}."]
    notes += [
        f"{system}: {count:,} candidates have no score from {name}: they stay below the others."
        for system, count in unscored.items()
        if count
    ]
    values = {"reranker": name, spec.measure: curves, "unscored": unscored}
    return _make_result(bench, spec, tables, {f"{spec.measure}, re-ranked": curves}, notes, **values)


def analyse_consistency(bench: Bench, spec: ConsistencySpec) -> AnalysisResult:
    """Compare each system with the first reference that is available (figure 2)."""
    name = next((name for name in spec.references if name in bench.systems), None)
    if name is None:
        raise Unavailable(f"no reference is available: {', '.join(spec.references)}")
    if len(bench.systems) < 2:
        raise Unavailable(f"there is no system to compare with the reference {name}")
    reference = read_candidates(read_run(bench.systems[name].runs[0]), spec.reference_depth)
    largest = max(map(len, reference.values()), default=0)
    measured = {
        system: measure_consistency(bench.rankings(system), reference, spec.depths)
        for system in bench.systems
        if system != name
    }
    curves = {system: consistency.values for system, consistency in measured.items()}
    caption = spec.title or f"Consistency factor with {name}"
    tables = depth_tables(curves, spec.depths, bench.published, caption=caption)
    notes = [
        f"The reference, {name} ({bench.systems[name].about}), has at most {largest:,} candidates per query."
    ]
    notes += [
        f"{system}: the reference lacks {len(lacking)} of {consistency.queries} queries: they count 0."
        for system, consistency in measured.items()
        if (lacking := consistency.unknown)
    ]
    values = {"reference": name, "largest": largest, "consistency": curves}
    return _make_result(bench, spec, tables, {"consistency factor": curves}, notes, **values)


def make_reranker(stage: Stage) -> Reranker:
    """The re-ranker that gives candidates the scores of a stage, whether or not it ranks them high.

    A dense retriever looks up the vectors of the candidates, a re-ranker scores them. Any other retriever, or
    a run, ranks all that it can, which suits collections of thousands of documents; a candidate that it does
    not rank gets no score.
    """
    if isinstance(stage, DenseRetriever):
        return rerank_by_scores(lambda ranking: _score_by_vectors(stage, ranking))

    def rerank(rankings: Iterable[Ranking]) -> Iterable[Ranking]:
        candidates, ahead = tee(rankings)
        scored = stage(ahead)
        return rerank_by_scores(lambda _: dict(next(scored)))(candidates)

    return rerank


def _make_result(
    bench: Bench,
    spec: RecallSpec | RerankingSpec | ConsistencySpec,
    tables: tuple[Table, ...],
    panels: Panels,
    notes: Sequence[str] = (),
    **values: Any,
) -> AnalysisResult:
    record = {"depths": spec.depths, **values, "published": bench.published}
    return AnalysisResult(tables, record, {spec.kind: line_plot(panels, spec.depths)}, tuple(notes))


def _measure_first(bench: Bench, spec: RerankingSpec) -> tuple[str, dict[str, RerankingByDepth], list[str]]:
    """The first re-ranker that is available, what it makes of each system, and why others before it fail."""
    absent: list[str] = []
    failures: list[str] = []
    for name, text in spec.rerankers.items():
        try:
            reranker = make_reranker(bench.read_stage(name, text))
            measured = {
                system: measure_reranking(
                    bench.rankings(system),
                    reranker,
                    bench.judged.qrels,
                    spec.measure,
                    spec.depths,
                    progress=bench.data.progress,
                )
                for system in bench.systems
            }
        except Unavailable as reason:
            absent.append(f"{name}: {reason}")
        except (MissingExtra, ModelError) as reason:  # a model is loaded with the first pair
            failures.append(f"{name}: {reason}")
        else:
            return name, measured, failures
    raise Unavailable(f"no re-ranker is available: {'; '.join((*absent, *failures))}")


def _score_by_vectors(stage: DenseRetriever, ranking: Ranking) -> dict[str, float]:
    docnos = {stage.vectors.docnos.row(docno): docno for docno in ranking.docnos}
    rows = np.array(sorted(docnos), np.int64)
    scores = stage.vectors.score_rows(rows, stage.encoder.encode_queries([ranking.query.text]).vectors[0])
    return {docnos[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}
