"""Measures by where relevant text stands: if it stands early, what a model cannot read does not show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from pydantic import model_validator

from telerank.corpus.collection import split_parts
from telerank.corpus.derived.positions import TokenSpans, find_positions, tokenizer_spans, word_spans
from telerank.errors import CollectionError
from telerank.evaluation.measures import average_evaluations
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Depths,
    Measure,
    Unavailable,
)
from telerank.experiments.pooled_values import query_items
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table


class PositionsAnalysis(Analysis):
    """A measure of each system by where the known relevant text of a query begins."""

    kind: Literal["positions"]
    measure: Measure
    edges: Depths
    """The tokens before the relevant text at which ranges begin, ascending; the first range begins at 0."""
    tokenizer: tuple[str, ...] = ()
    """Encoders; the tokens of the first that is available are counted. Without any, words are."""

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if list(self.edges) != sorted({*self.edges}):
            raise ValueError("edges must rise")
        return self

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Measure each system over the queries whose relevant text begins in one range, for each range."""
        before, unit = _positions(bench, self)
        qrels = {qid: grades for qid, grades in bench.judged.qrels.items() if qid in before}
        if not qrels:
            raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")
        members: dict[str, list[str]] = {}
        for low, high in zip((0, *self.edges), (*self.edges, None), strict=True):
            name = f"{low:,} and more" if high is None else f"{low:,} to {high - 1:,}"
            members[name] = [
                qid for qid in qrels if low <= before[qid] and (high is None or before[qid] < high)
            ]
        evaluations = {
            system: average_evaluations(bench.measure(system, [self.measure], qrels))
            for system in bench.systems
        }
        items: dict[str, Any] = {}
        record: dict[str, dict[str, Mapping[str, float] | None]] = {system: {} for system in evaluations}
        for name, qids in members.items():
            selected = {system: evaluation.select(qids) for system, evaluation in evaluations.items()}
            items |= query_items(selected, [self.measure], f", {name}")
            for system, evaluation in selected.items():
                record[system][name] = _summarise(evaluation.values[self.measure])
        rows = [(system, *map(_show_summary, summaries.values())) for system, summaries in record.items()]
        counts = {name: len(qids) for name, qids in members.items()}
        heads = [f"{name} ({count:,})" for name, count in counts.items()]
        note = (
            f"{self.measure} by the {unit} before a query's first known relevant text, with the number of "
            "queries; in brackets the 95% bootstrap interval."
        )
        table = Table.of(("system", *heads), rows, caption=self.title, notes=[note])
        values_of = {"unit": unit, "queries": counts, "values": record}
        missing = len(bench.judged.qrels) - len(qrels)
        said = (f"{missing:,} measured queries have no known relevant text.",) if missing else ()
        return AnalysisResult((table,), values_of, notes=said, items=items)


def _positions(bench: Bench, spec: PositionsAnalysis) -> tuple[dict[str, int], str]:
    """The tokens before the first relevant text of each query of the split, and what they are."""
    spans: TokenSpans = word_spans
    unit = "words"
    if spec.tokenizer:
        from telerank.models.loading import locate

        spans = tokenizer_spans(locate(find_encoder(spec.tokenizer, bench.runner.sources)))
        unit = "tokens"
    try:
        positions = find_positions(bench.data.collection, split_parts(bench.data.split), spans=spans)
        before: dict[str, int] = {}
        for position in positions:
            before[position.qid] = min(position.before, before.get(position.qid, position.before))
    except CollectionError as error:
        raise Unavailable(str(error)) from error
    return before, unit


def _summarise(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Mapping[str, float] | None:
    if not len(values):
        return None
    ((low, high),) = bootstrap_intervals([values])
    return {"mean": statistics.fmean(values.tolist()), "low": low, "high": high}


def _show_summary(summary: Mapping[str, float] | None) -> str | None:
    if summary is None:
        return None
    return f"{summary['mean']:.3f} [{summary['low']:.3f}, {summary['high']:.3f}]"
