"""Two systems where the answer is not in the first segment: the difference, its interval and its test.

What reads the first segment reads nothing of an answer that stands behind it, so that what selects segments
must show there (BeST against BERT (First P)), if anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np

from telerank.evaluation.measures import average_evaluations
from telerank.evaluation.statistics import bootstrap_intervals, holm, paired_t, zero_noise
from telerank.experiments.analyses.bench import Bench
from telerank.experiments.analyses.long_documents.segments import (
    MatchesSegments,
    TruePair,
    find_matcher,
    read_true_pairs,
)
from telerank.experiments.analysis import Analysis, AnalysisResult, Measures, Unavailable
from telerank.experiments.pooled_values import Items, PooledValues, query_items
from telerank.show.tables import Table, show_interval

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
    """The difference of two systems where the known relevant text begins behind the first segment."""

    kind: Literal["behind-first"]
    measures: Measures
    system: str = "BeST"
    baseline: str
    """A system that reads segments; it decides where the first one ends."""

    @property
    def system_names(self) -> tuple[str, ...]:
        return (*super().system_names, self.system, self.baseline)

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
        known = sum(map(len, groups.values()))
        missing_queries = len(bench.judged.qrels) - known
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
