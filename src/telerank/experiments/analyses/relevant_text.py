"""Systems by where known relevant text stands: what a model cannot read shows only behind its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from telerank.corpus.collection import split_parts
from telerank.corpus.lengths import TokenSpans, find_positions, tokenizer_spans, word_spans
from telerank.errors import CollectionError
from telerank.evaluation.measures import average_evaluations
from telerank.evaluation.statistics import bootstrap_intervals, holm, paired_t, zero_noise
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.segments import find_matcher, read_measured_pairs
from telerank.experiments.analysis import (
    Analysis,
    AnalysisResult,
    Depths,
    Items,
    Measure,
    Measures,
    PooledValues,
    Unavailable,
    query_items,
)
from telerank.experiments.trained import find_encoder
from telerank.show.tables import Table, show_interval


class PositionsAnalysis(Analysis):
    """A measure of each system by where the known relevant text of a query begins.

    Attributes
    ----------
    edges
        The tokens before the relevant text at which ranges begin, ascending; the first range begins
        at 0.
    tokenizer
        Encoders; the tokens of the first that is available are counted. Without any, words are.
    """

    kind: Literal["positions"]
    measures: Measure
    edges: Depths
    tokenizer: tuple[str, ...] = ()

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
            system: average_evaluations(bench.measure(system, [self.measures], qrels))
            for system in bench.systems
        }
        items: dict[str, Any] = {}
        record: dict[str, dict[str, Mapping[str, float] | None]] = {system: {} for system in evaluations}
        rows: dict[str, dict[str, str | None]] = {system: {} for system in evaluations}
        for name, qids in members.items():
            selected = {system: evaluation.select(qids) for system, evaluation in evaluations.items()}
            items |= query_items(selected, [self.measures], f", {name}")
            for system, evaluation in selected.items():
                record[system][name] = rows[system][f"{name} ({len(qids):,})"] = None
                if qids:
                    values = evaluation.values[self.measures]
                    mean, ((least, most),) = fmean(values.tolist()), bootstrap_intervals([values])
                    record[system][name] = {"mean": mean, "low": least, "high": most}
                    rows[system][f"{name} ({len(qids):,})"] = f"{mean:.3f} [{least:.3f}, {most:.3f}]"
        note = (
            f"{self.measures} by the {unit} before a query's first known relevant text, with the number of "
            "queries; in brackets the 95% bootstrap interval."
        )
        return AnalysisResult(
            (Table.pivot(rows, caption=self.title, notes=[note]),),
            {"unit": unit, "queries": {name: len(qids) for name, qids in members.items()}, "values": record},
            notes=describe_unknown(len(bench.judged.qrels) - len(qrels)),
            items=items,
        )


def describe_unknown(queries: int) -> tuple[str, ...]:
    """A note on the measured queries without known relevant text, if there are any."""
    return (f"{queries:,} measured queries have no known relevant text.",) * bool(queries)


def _positions(bench: Bench, spec: PositionsAnalysis) -> tuple[dict[str, int], str]:
    """The tokens before the first relevant text of each query of the split, and what they are."""
    spans: TokenSpans = word_spans
    unit = "words"
    if spec.tokenizer:
        from telerank.models.loading import locate

        spans = tokenizer_spans(locate(find_encoder(spec.tokenizer, bench.runner.sources)))
        unit = "tokens"
    before: dict[str, int] = {}
    try:
        for position in find_positions(bench.data.collection, split_parts(bench.data.split), spans=spans):
            before[position.qid] = min(position.before, before.get(position.qid, position.before))
    except CollectionError as error:
        raise Unavailable(str(error)) from error
    return before, unit


BEHIND, WITHIN = "behind the first segment", "within the first segment"


class BehindFirstAnalysis(Analysis):
    """The difference of two systems where the known relevant text begins behind the first segment.

    Attributes
    ----------
    baseline
        A system that reads segments; it decides where the first one ends.
    """

    kind: Literal["behind-first"]
    measures: Measures
    system: str = "BeST"
    baseline: str

    named_by: ClassVar[tuple[str, ...]] = ("system", "baseline")

    def analyse(self, bench: Bench) -> AnalysisResult:
        """Compare a system with the baseline over the queries behind the first segment, and over the others.

        A query is behind if, in each of its relevant documents, no known relevant text begins before the
        first segment of the baseline ends. Values of several seeds are averaged.
        """
        if missing := [name for name in (self.baseline, self.system) if name not in bench.systems]:
            raise Unavailable(f"no {' and no '.join(missing)} to compare")
        pairs, matcher = read_measured_pairs(bench), find_matcher(bench.systems[self.baseline])
        if matcher is None:
            raise Unavailable(f"{self.baseline} has no stage that reads segments")
        within: dict[str, bool] = {}
        for pair in pairs:
            segments = matcher.match(pair.query, pair.docno)
            end = next(segment.span[1] for segment in segments if segment.number == 0)
            within[pair.query.qid] = (
                within.get(pair.query.qid, False) or min(start for start, _ in pair.gold) < end
            )
        evaluations = {
            name: average_evaluations(bench.measure(name, self.measures))
            for name in (self.baseline, self.system)
        }
        items: dict[str, Any] = {}
        for name in self.measures:
            for group in (BEHIND, WITHIN):
                qids = [qid for qid, inside in within.items() if inside == (group == WITHIN)]
                selected = {system: evaluation.select(qids) for system, evaluation in evaluations.items()}
                items |= query_items(selected, [name], f", {group}") if qids else {}
        table, record = compare_groups(items, self)
        return AnalysisResult(
            (table,), record, notes=describe_unknown(len(bench.judged.qrels) - len(within)), items=items
        )

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """With the difference over the queries of all folds."""
        pooled = super().pool_folds(folds)
        table, differences = compare_groups(folds.items, self)
        return replace(pooled, tables=(table, *pooled.tables), record={**pooled.record, **differences})


def compare_groups(items: Items, spec: BehindFirstAnalysis) -> tuple[Table, dict[str, Any]]:
    """The two systems over the same queries, for each of the items: a row with the difference and its test.

    The record has the same rows as ``differences``, and the names that are ``compared``.
    """
    differences: list[dict[str, Any]] = []
    for column, by_system in items.items():
        pair = [by_system[name] for name in (spec.system, spec.baseline)]
        qids = [qid for qid in pair[0] if qid in pair[1]]
        ours, theirs = (np.array([fmean(values[qid]) for qid in qids]) for values in pair)
        deltas = zero_noise(ours - theirs)
        name, _, group = column.rpartition(", ")
        means = {"system": float(ours.mean()), "baseline": float(theirs.mean())}
        means["difference"] = float(deltas.mean())
        ((low, high),) = bootstrap_intervals([deltas])
        row = {"measure": name, "group": group, "queries": len(qids), **means, "low": low, "high": high}
        differences.append({**row, "p": paired_t(deltas)})
    for row, corrected in zip(differences, holm([row["p"] for row in differences]), strict=True):
        row["p_holm"] = corrected
    rows = [
        {
            "measure": row["measure"],
            "relevant text": row["group"],
            "queries": row["queries"],
            spec.baseline: row["baseline"],
            spec.system: row["system"],
            "difference": f"{row['difference']:+.3f}",
            "95% interval": show_interval(row["low"], row["high"], "+.3f"),
            "p": f"{row['p']:.4f}",
            "p, Holm": f"{row['p_holm']:.4f}",
        }
        for row in differences
    ]
    return Table.of_rows(
        rows,
        caption=spec.title,
        notes=[
            (
                "Relevant text: where the first known one of a query begins; the first segment is that "
                f"which {spec.baseline} reads. 95% bootstrap intervals over the queries, paired t-tests, and "
                "Holm's correction over the tests of this table."
            )
        ],
        left=2,
    ), {"compared": [spec.baseline, spec.system], "differences": differences}
