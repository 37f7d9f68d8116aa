"""Segment P@1 of systems that rank documents by their segments (BeST, table 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from telerank.evaluation.segments import SegmentChoice, SegmentPrecision, measure_segments
from telerank.experiments.analyses.bench import AnalysisResult, Bench, Unavailable
from telerank.experiments.analyses.long_documents.choices import (
    BM25,
    FIRST,
    RANDOM,
    Chooser,
    draw_pairs,
    find_matcher,
    read_true_pairs,
)
from telerank.experiments.analyses.specs import SegmentsSpec
from telerank.show.tables import Table

PRECISION = "P@1"


def analyse_segments(bench: Bench, spec: SegmentsSpec) -> AnalysisResult:
    """Measure P@1 of each system that scores segments, and of choices that need no model."""
    pairs = draw_pairs(read_true_pairs(bench, bench.data.split, bench.judged.queries), bench, spec)
    if not pairs:
        raise Unavailable(f"no measured query of {bench.data.name} has known relevant text")
    chooser = Chooser(bench, pairs, spec.rule)
    choices: dict[str, list[SegmentChoice]] = {}
    for name, system in bench.systems.items():
        if (matcher := find_matcher(system)) is not None:
            choices[name] = chooser.by_model(name, matcher)
    if not choices:
        raise Unavailable("no system with a stage ranks documents by their segments")
    choices = {BM25: chooser.by_words(), **choices}
    rows = {name: measure_segments(own) for name, own in choices.items()}
    record = {name: row.record() for name, row in rows.items()}
    return AnalysisResult((_table(rows, bench, spec),), record, items={PRECISION: items_of(choices)})


def items_of(choices: Mapping[str, Sequence[SegmentChoice]]) -> dict[str, dict[str, list[float]]]:
    """The values of each query by system, with those of a random choice and of the first segment."""
    base = choices[BM25]
    rows: dict[str, list[tuple[str, float]]]
    rows = {RANDOM: [(own.qid, own.chance) for own in base], FIRST: [(own.qid, own.first) for own in base]}
    rows |= {name: [(own.qid, own.right) for own in some] for name, some in choices.items()}
    return {name: _by_qid(values) for name, values in rows.items()}


def _by_qid(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    by_qid: dict[str, list[float]] = {}
    for qid, value in values:
        by_qid.setdefault(qid, []).append(float(value))
    return by_qid


def _table(rows: Mapping[str, SegmentPrecision], bench: Bench, spec: SegmentsSpec) -> Table:
    base = rows[BM25]
    measured = {RANDOM: [f"{base.chance:.3f}", ""], FIRST: [f"{base.first:.3f}", ""]} | {
        name: [f"{row.precision:.3f}", f"{row.low:.3f} to {row.high:.3f}"] for name, row in rows.items()
    }
    columns = list(dict.fromkeys(column for row in bench.published.values() for column in row))
    lines = []
    for name in dict.fromkeys((*measured, *bench.published)):
        printed = bench.published.get(name, {})
        values = (printed.get(column) for column in columns)
        texts = ["–" if value is None else f"{value:.3f}" for value in values]
        lines.append([name, *measured.get(name, ["–", ""]), *texts])
    heads = ("system", PRECISION, "95% interval", *(f"{column}, paper" for column in columns))
    needs = "at least half of" if spec.rule == "most" else "all of"
    note = (
        f"P@1 over {base.pairs:,} pairs of a query and a relevant document: the best-scored segment holds "
        f"{needs} a known relevant text. In {100 * base.reachable:.1f} % of the pairs a segment does. "
        "Intervals are bootstrapped over the queries. A random choice, the first segment and BM25 are among "
        "the segments of the system that has most of them."
    )
    return Table.of(heads, lines, caption=spec.title, notes=[note])
