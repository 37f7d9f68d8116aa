"""Measures by where relevant text stands: if it stands early, what a model cannot read does not show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from telerank.corpus.collection import split_parts
from telerank.corpus.long_documents.positions import TokenSpans, find_positions, tokenizer_spans, word_spans
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.evaluation.statistics import bootstrap_intervals
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.specs import PositionsSpec
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table


def analyse_positions(bench: Bench, spec: PositionsSpec) -> AnalysisResult:
    """Measure each system over the queries whose relevant text begins in one range, for each range."""
    before, unit = _positions(bench, spec)
    qrels = {qid: grades for qid, grades in bench.judged.qrels.items() if qid in before}
    if not qrels:
        raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")
    ranges = _ranges(spec.edges)
    members = {
        name: np.array([low <= before[qid] and (high is None or before[qid] < high) for qid in qrels])
        for name, (low, high) in ranges.items()
    }
    rows, record = [], {}
    items: dict[str, dict[str, dict[str, list[float]]]]
    items = {f"{spec.measure}, {name}": {} for name in ranges}
    for system, runs in bench.systems.items():
        evaluations = [
            measure(bench.rankings(system, seed), qrels, [spec.measure], progress=bench.data.progress)
            for seed in range(len(runs.runs))
        ]
        values = np.mean([evaluation.values[spec.measure] for evaluation in evaluations], axis=0)
        by_qid = dict(zip(evaluations[0].qids, values.tolist(), strict=True))
        ordered = np.array([by_qid[qid] for qid in qrels])
        for name, own in members.items():
            chosen = (qid for qid, inside in zip(qrels, own.tolist(), strict=True) if inside)
            items[f"{spec.measure}, {name}"][system] = {qid: [by_qid[qid]] for qid in chosen}
        record[system] = {name: _summarise(ordered[own]) for name, own in members.items()}
        rows.append([system, *(_format(record[system][name]) for name in ranges)])
    counts = {name: int(own.sum()) for name, own in members.items()}
    heads = [f"{name} ({counts[name]:,})" for name in ranges]
    note = (
        f"{spec.measure} by the {unit} before a query's first known relevant text, with the number of "
        "queries; in brackets the 95% bootstrap interval."
    )
    table = Table.of(("system", *heads), rows, caption=spec.title, notes=[note])
    values_of = {"unit": unit, "queries": counts, "values": record}
    missing = len(bench.judged.qrels) - len(qrels)
    said = (f"{missing:,} measured queries have no known relevant text.",) if missing else ()
    return AnalysisResult((table,), values_of, notes=said, items=items)


def _positions(bench: Bench, spec: PositionsSpec) -> tuple[dict[str, int], str]:
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


def _ranges(edges: Sequence[int]) -> dict[str, tuple[int, int | None]]:
    """Ranges between the edges, by name: ``0 to 127``, ``128 to 511``, ``512 and more``."""
    bounds = [0, *edges]
    ends: list[int | None] = [*edges, None]
    return {
        f"{low:,} to {high - 1:,}" if high is not None else f"{low:,} and more": (low, high)
        for low, high in zip(bounds, ends, strict=True)
    }


def _summarise(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Mapping[str, float] | None:
    if not len(values):
        return None
    ((low, high),) = bootstrap_intervals([values])
    return {"mean": statistics.fmean(values.tolist()), "low": low, "high": high}


def _format(summary: Mapping[str, float] | None) -> str:
    if summary is None:
        return "–"
    return f"{summary['mean']:.3f} [{summary['low']:.3f}, {summary['high']:.3f}]"
