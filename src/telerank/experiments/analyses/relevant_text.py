"""Systems by where known relevant text stands: what a model cannot read shows only behind its limit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from telerank.experiments.analyses.segments import MatchesSegments, TruePair, find_matcher, read_true_pairs
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
    measure: Measure
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


BEHIND, WITHIN = "behind the first segment", "within the first segment"


@dataclass(frozen=True)
class GroupDifference:
    """The difference of two systems over a group of queries; ``p_holm`` is corrected over all groups."""

    measure: str
    group: str
    queries: int
    system: float
    baseline: float
    difference: float
    low: float
    high: float
    p: float
    p_holm: float


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
        pairs = read_true_pairs(bench, bench.data.split, bench.judged.queries)
        if not pairs:
            raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")
        matcher = find_matcher(bench.systems[self.baseline])
        if matcher is None:
            raise Unavailable(f"{self.baseline} has no stage that reads segments")
        groups = _group(pairs, matcher)
        evaluations = {
            name: average_evaluations(bench.measure(name, self.measures))
            for name in (self.baseline, self.system)
        }
        items: dict[str, Any] = {}
        for name in self.measures:
            for group, qids in groups.items():
                selected = {system: evaluation.select(qids) for system, evaluation in evaluations.items()}
                items |= query_items(selected, [name], f", {group}") if qids else {}
        table, record = compare_groups(items, self)
        missing_queries = len(bench.judged.qrels) - sum(map(len, groups.values()))
        notes = (
            (f"{missing_queries:,} measured queries have no known relevant text.",) if missing_queries else ()
        )
        return AnalysisResult((table,), record, notes=notes, items=items)

    def pool_folds(self, folds: PooledValues) -> AnalysisResult:
        """With the difference over the queries of all folds."""
        pooled = super().pool_folds(folds)
        table, differences = compare_groups(folds.items, self)
        return replace(pooled, tables=(table, *pooled.tables), record={**pooled.record, **differences})


def compare_groups(items: Items, spec: BehindFirstAnalysis) -> tuple[Table, dict[str, Any]]:
    """The two systems over the same queries, for each of the items: a row with the difference and its test.

    The record has the same rows as ``differences``, and the names that are ``compared``.
    """
    rows = []
    for column, by_system in items.items():
        of_system, of_baseline = by_system[spec.system], by_system[spec.baseline]
        qids = [qid for qid in of_system if qid in of_baseline]
        ours, theirs = (np.array([fmean(own[qid]) for qid in qids]) for own in (of_system, of_baseline))
        deltas = zero_noise(ours - theirs)
        ((low, high),) = bootstrap_intervals([deltas])
        name, _, group = column.rpartition(", ")
        means = float(ours.mean()), float(theirs.mean()), float(deltas.mean())
        p = paired_t(deltas)
        rows.append(GroupDifference(name, group, len(qids), *means, low, high, p, p))
    corrected = holm([row.p for row in rows])
    differences = [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]
    record = {
        "compared": [spec.baseline, spec.system],
        "differences": [asdict(difference) for difference in differences],
    }
    lines = [
        (
            row.measure,
            row.group,
            row.queries,
            row.baseline,
            row.system,
            f"{row.difference:+.3f}",
            show_interval(row.low, row.high, "+.3f"),
            f"{row.p:.4f}",
            f"{row.p_holm:.4f}",
        )
        for row in differences
    ]
    heads = ("measure", "relevant text", "queries", spec.baseline, spec.system)
    note = (
        "Relevant text: where the first known one of a query begins; the first segment is that which "
        f"{spec.baseline} reads. 95% bootstrap intervals over the queries, paired t-tests, and Holm's "
        "correction over the tests of this table."
    )
    columns = (*heads, "difference", "95% interval", "p", "p, Holm")
    return Table.of(columns, lines, caption=spec.title, notes=[note], left=2), record


def _group(pairs: Sequence[TruePair], matcher: MatchesSegments) -> dict[str, list[str]]:
    """The queries by where their known relevant text begins."""
    within: dict[str, bool] = {}
    for pair in pairs:
        segments = matcher.match(pair.query, pair.docno)
        end = next(segment.span[1] for segment in segments if segment.number == 0)
        qid = pair.query.qid
        within[qid] = within.get(qid, False) or min(start for start, _ in pair.gold) < end
    return {
        BEHIND: [qid for qid, inside in within.items() if not inside],
        WITHIN: [qid for qid, inside in within.items() if inside],
    }
