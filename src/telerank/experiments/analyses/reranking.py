"""Accuracy of each system's first n documents after re-ranking, by n (RepBERT, table 2 and figure 1b)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from telerank.dense.retriever import DenseRetriever
from telerank.errors import MissingExtra
from telerank.evaluation.reranking import Reranker, measure_reranking
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import RerankingSpec
from telerank.experiments.published import depth_tables
from telerank.reranking.stage import CrossReranker
from telerank.stage import Stage
from telerank.types import Ranking


def analyse_reranking(bench: Bench, spec: RerankingSpec) -> AnalysisResult:
    """Re-rank each system by the first re-ranker that is available, and measure every depth."""
    from telerank.show.plots import line_plot

    name, reranker = _first_reranker(bench, spec)
    curves, unscored = {}, {}
    for system in bench.systems:
        by_depth = measure_reranking(
            bench.rankings(system), reranker, bench.qrels, spec.measure, spec.depths, progress=bench.progress
        )
        curves[system], unscored[system] = by_depth.of(spec.measure), by_depth.unscored
    caption = spec.title or f"{spec.measure} of the first n, re-ranked; {name}"
    tables = depth_tables(curves, spec.depths, bench.published, caption=caption, changes=True)
    first = next(iter(spec.rerankers))
    notes = [] if name == first else [f"Re-ranked by {name}; the paper's values are of {first}."]
    notes += [
        f"{system}: {count:,} candidates have no score from {name}: they stay below the others."
        for system, count in unscored.items()
        if count
    ]
    record = {"depths": spec.depths, "reranker": name, spec.measure: curves, "unscored": unscored}
    record |= {"published": bench.published}
    plot = line_plot({f"{spec.measure}, re-ranked": curves}, spec.depths)
    return AnalysisResult(tables, record, {"reranking": plot}, tuple(notes))


def make_reranker(stage: Stage) -> Reranker:
    """The re-ranker that gives candidates the scores of a stage, whether or not it ranks them high.

    A dense retriever looks up the vectors of the candidates. Any other retriever, or a run, ranks all that it
    can, which suits collections of thousands of documents; a candidate that it does not rank gets no score.
    """
    if isinstance(stage, CrossReranker):
        return stage
    score = (
        partial(_score_by_vectors, stage)
        if isinstance(stage, DenseRetriever)
        else partial(_score_by_search, stage)
    )

    def rerank(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in rankings:
            scores = score(ranking)
            docnos = [docno for docno in ranking.docnos if docno in scores]
            yield Ranking.ranked(ranking.query, docnos, [scores[docno] for docno in docnos])

    return rerank


def _first_reranker(bench: Bench, spec: RerankingSpec) -> tuple[str, Reranker]:
    reasons = []
    for name, text in spec.rerankers.items():
        try:
            return name, make_reranker(bench.read_stage(name, text))
        except (Unavailable, MissingExtra) as reason:
            reasons.append(f"{name}: {reason}")
    raise Unavailable(f"no re-ranker is available: {'; '.join(reasons)}")


def _score_by_search(stage: Stage, ranking: Ranking) -> dict[str, float]:
    return dict(stage.search(ranking.query))


def _score_by_vectors(stage: DenseRetriever, ranking: Ranking) -> dict[str, float]:
    docnos = {stage.vectors.docnos.row(docno): docno for docno in ranking.docnos}
    rows = np.array(sorted(docnos), np.int64)
    scores = stage.vectors.score_rows(rows, stage.encoder.encode_queries([ranking.query.text]).vectors[0])
    return {docnos[row]: score for row, score in zip(rows.tolist(), scores.tolist(), strict=True)}
