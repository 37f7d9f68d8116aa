"""Evaluations and comparisons as tables to read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from telerank.evaluate.compare import Comparison, Difference
from telerank.evaluate.measures import Evaluation
from telerank.show.tables import Cell, Table


def means_table(evaluations: Mapping[str, Evaluation], *, caption: str = "") -> Table:
    """A row for each system, a column for each measure, the best of each column strong."""
    measures = next(iter(evaluations.values())).measures
    best = _best(evaluations, measures)
    rows: list[list[str | Cell]] = []
    for system, evaluation in evaluations.items():
        rows.append([system, *(_mean(evaluation, name, best) for name in measures)])
    return Table.of(("system", *measures), rows, caption=caption)


def comparison_table(comparison: Comparison) -> Table:
    """The means of all systems with the signs of significant differences."""
    best = _best(comparison.evaluations, comparison.measures)
    rows: list[list[str | Cell]] = []
    for system, evaluation in comparison.evaluations.items():
        cells = [
            _mean(evaluation, name, best, comparison.marks(system, name)) for name in comparison.measures
        ]
        rows.append([system, *cells])
    queries = len(next(iter(comparison.evaluations.values())).qids)
    signs = [
        f"{comparison.mark(one)} differs from {one} (p < {comparison.level:g})"
        for one in comparison.baselines
    ]
    test = f"Paired t-test over {queries} queries"
    family = "Holm's correction over all systems and measures of a baseline"
    notes = [f"{', '.join(signs)}. {test}, {family}."] if signs else []
    return Table.of(("system", *comparison.measures), rows, caption="Means", notes=notes)


def difference_table(comparison: Comparison, baseline: str) -> Table:
    """Every difference from one baseline, with all that is known of it."""
    share = f"{100 * comparison.confidence:g}%"
    columns = (
        "system",
        "measure",
        "mean",
        "delta",
        "delta %",
        "p",
        "d",
        f"{share} interval",
        "+/=/-",
    )
    rows = [_difference(comparison, one) for one in comparison.differences if one.baseline == baseline]
    note = (
        "delta: difference of the means; p: paired t-test with Holm's correction; d: Cohen's d of paired "
        "differences; interval of delta by bootstrap over the queries; +/=/-: queries that gain, stay, lose; "
        f"strong: p < {comparison.level:g}."
    )
    return Table.of(columns, rows, caption=f"Differences from {baseline}", notes=[note], left=2)


def changes_table(comparison: Comparison, baseline: str, *, queries: int = 10) -> Table:
    """The queries that changed most against one baseline, at most ten for each system and measure."""
    rows = []
    for one in comparison.differences:
        if one.baseline != baseline:
            continue
        new = comparison.evaluations[one.system].of(one.measure)
        old = comparison.evaluations[baseline].of(one.measure)
        for qid, delta in one.changed[:queries]:
            rows.append([one.system, one.measure, qid, f"{old[qid]:.4f}", f"{new[qid]:.4f}", f"{delta:+.4f}"])
    columns = ("system", "measure", "query", baseline, "system's", "delta")
    return Table.of(columns, rows, caption=f"Queries that changed most from {baseline}", left=3)


def depth_table(
    curves: Mapping[str, Mapping[str, Sequence[float]]], depths: Sequence[int], *, caption: str = ""
) -> Table:
    """``curves[system][measure]``, one mean a depth: a row for each system and measure.

    Three digits: eight depths fit into 80 columns.
    """
    rows = [
        [system, name, *(f"{value:.3f}" for value in values)]
        for system, measured in curves.items()
        for name, values in measured.items()
    ]
    return Table.of(("system", "measure", *(f"@{depth}" for depth in depths)), rows, caption=caption, left=2)


def columns_table(
    curves: Mapping[str, Sequence[float]],
    depths: Sequence[int],
    *,
    caption: str = "",
    changes: bool = False,
) -> Table:
    """A row for each depth, a column for each system, the best of each row strong.

    With ``changes`` the change from the first system stands beside the others, as in table 2 of RepBERT.
    """
    first = next(iter(curves.values()))
    rows: list[list[str | Cell]] = []
    for i, depth in enumerate(depths):
        values = [values[i] for values in curves.values()]
        best = max(round(value, 3) for value in values) if len(values) > 1 else None
        row: list[str | Cell] = [str(depth)]
        for place, value in enumerate(values):
            beside = f" {changed(value, first[i]):>6}" if changes and place else ""
            row.append(Cell(f"{value:.3f}{beside}", strong=round(value, 3) == best))
        rows.append(row)
    notes = [f"In brackets the change from {next(iter(curves))}."] if changes and len(curves) > 1 else []
    return Table.of(("depth", *curves), rows, caption=caption, notes=notes)


def changed(value: float, base: float) -> str:
    """The change in per cent: ``(+8%)``."""
    return f"({100.0 * (value - base) / base:+.0f}%)" if base else "(–)"


def query_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row for each query and system, a column for each measure."""
    first = next(iter(evaluations.values()))
    values = {system: {name: one.of(name) for name in one.measures} for system, one in evaluations.items()}
    rows = [
        [qid, system, *(f"{values[system][name][qid]:.4f}" for name in first.measures)]
        for qid in first.qids
        for system in evaluations
    ]
    return Table.of(("query", "system", *first.measures), rows, left=2)


def _best(evaluations: Mapping[str, Evaluation], measures: Sequence[str]) -> dict[str, float]:
    if len(evaluations) < 2:
        return {}
    return {name: max(_shown(one, name) for one in evaluations.values()) for name in measures}


def _mean(evaluation: Evaluation, measure: str, best: Mapping[str, float], marks: str = "") -> Cell:
    mean = _shown(evaluation, measure)
    return Cell(f"{mean:.4f}", strong=best.get(measure) == mean, marks=marks)


def _shown(evaluation: Evaluation, measure: str) -> float:
    """The mean as it is printed: what looks equal is equally best."""
    return round(float(evaluation.values[measure].mean()), 4)


def _difference(comparison: Comparison, one: Difference) -> list[str | Cell]:
    return [
        one.system,
        one.measure,
        f"{one.mean:.4f}",
        Cell(f"{one.delta:+.4f}", strong=one.p_holm < comparison.level),
        _number(one.percent, "+.1f"),
        p_value(one.p_holm),
        _number(one.effect, "+.2f"),
        f"[{one.low:+.4f}, {one.high:+.4f}]",
        f"{one.wins}/{one.ties}/{one.losses}",
    ]


def p_value(p: float) -> str:
    """Three digits, or that it is less than they can say."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _number(value: float, form: str) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:{form}}" if math.isfinite(value) else ("+∞" if value > 0 else "-∞")
