"""Evaluations as tables, and compared with baselines: differences and their significance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from telerank.errors import ArgumentError, agree, count_noun, known_names
from telerank.evaluation.answers.overlap import ANSWER_MEASURES, parse_answer_measures
from telerank.evaluation.measures import Evaluation, aggregate_name, parse_measures, require_means
from telerank.evaluation.statistics import (
    Differences,
    bootstrap_intervals,
    effect_size,
    holm,
    paired_t,
    zero_noise,
)
from telerank.show.report import Report, make_frame
from telerank.show.tables import Cell, Table, show_change, show_p, show_value

_CHANGED = 10  # queries reported with the largest changes
_MARKS = "†‡§¶"
_BY_RECALL = ("IPrec", "iprec_at_recall", "11pt_avg")
_COLUMNS = 10  # measures that a table has in columns; more are rows


@dataclass(frozen=True)
class Difference:
    """The difference of one system from one baseline by one measure.

    ``delta`` is the difference of the means, ``percent`` the same in percent of the baseline's mean
    (NaN if that is 0). ``p`` is of a paired t-test, ``p_holm`` the same corrected over all systems
    and measures that are compared with this baseline. ``effect`` is Cohen's d of the paired
    differences; ``low`` and ``high`` bound the bootstrap confidence interval of ``delta``.
    ``changed`` are the ten queries that changed most, with their differences, the largest first.
    """

    system: str
    baseline: str
    measure: str
    mean: float
    baseline_mean: float
    delta: float
    percent: float
    p: float
    p_holm: float
    effect: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    changed: tuple[tuple[str, float], ...]


def evaluations_frame(evaluations: Mapping[str, Evaluation]) -> Any:
    """A row for each system and query, a column for each measure; needs pandas."""
    measures = next(iter(evaluations.values())).measures
    rows = (
        (name, qid, *values)
        for name, evaluation in evaluations.items()
        for qid, *values in zip(
            evaluation.qids, *(evaluation.values[measure] for measure in measures), strict=True
        )
    )
    return make_frame(("system", "qid", *measures), rows)


@dataclass(frozen=True)
class Comparison(Report):
    """Evaluations of the same queries, and the differences of each system from each baseline.

    A difference is significant if its corrected p is below ``level``.
    """

    title: ClassVar[str] = "Comparison"
    evaluations: Mapping[str, Evaluation]
    baselines: tuple[str, ...]
    measures: tuple[str, ...]
    differences: tuple[Difference, ...]
    level: float

    @property
    def queries(self) -> int:
        return len(next(iter(self.evaluations.values())).qids)

    def difference(self, system: str, baseline: str, measure: str) -> Difference:
        rows = {(row.system, row.baseline, row.measure): row for row in self.differences}
        return rows[system, baseline, measure]

    def mark(self, baseline: str) -> str:
        """The mark of a significant difference from this baseline."""
        i = self.baselines.index(baseline)
        return _MARKS[i] if i < len(_MARKS) else f"[{i + 1}]"

    def marks(self, system: str, measure: str) -> str:
        """The marks of the baselines that this system differs from significantly."""
        return "".join(
            self.mark(row.baseline)
            for row in self.differences
            if row.system == system and row.measure == measure and row.p_holm < self.level
        )

    def to_pandas(self) -> Any:
        """A row for each system and query, a column for each measure; needs pandas."""
        return evaluations_frame(self.evaluations)

    def with_changes(self, queries: int) -> Comparison:
        """The comparison with at most ``queries`` of the queries that changed most."""
        return replace(
            self, differences=tuple(replace(row, changed=row.changed[:queries]) for row in self.differences)
        )

    def tables(self) -> list[Table]:
        differences = [difference_table(self, baseline) for baseline in self.baselines]
        changes = [changes_table(self, baseline) for baseline in self.baselines]
        return [table for table in (comparison_table(self), *differences, *changes) if table.rows]

    @property
    def remarks(self) -> list[str]:
        return describe_gaps(self.evaluations)

    def record(self) -> dict[str, Any]:
        return {
            "queries": self.queries,
            "baselines": self.baselines,
            "level": self.level,
            "means": {system: evaluation.mean for system, evaluation in self.evaluations.items()},
            "differences": [asdict(row) for row in self.differences],
        }


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    baselines: Sequence[str],
    *,
    measures: Sequence[str] | None = None,
    level: float = 0.05,
    seed: int = 0,
) -> Comparison:
    """Compare each system with each baseline by each measure (default: all that were computed).

    Holm's correction is over every other system by every measure, separately for each baseline. A
    baseline is itself compared with the other baselines. Raises ValueError if there is no system, a
    baseline or measure was not evaluated, or the queries differ; MeasureError if a measure is not averaged.
    """
    if not evaluations:
        raise ArgumentError("there is no system to compare")
    first, *rest = evaluations.values()
    if not measures:
        names = tuple(name for name in first.measures if all(name in other.values for other in rest))
    elif all(name in ANSWER_MEASURES for evaluation in (first, *rest) for name in evaluation.measures):
        names = parse_answer_measures(measures)
    else:
        names = parse_measures(measures)
    _check(evaluations, baselines, names)
    require_means(names)
    pairs = [
        (system, baseline, name)
        for baseline in baselines
        for system in evaluations
        if system != baseline
        for name in names
    ]
    rows = [
        zero_noise(evaluations[system].values[name] - evaluations[baseline].values[name])
        for system, baseline, name in pairs
    ]
    intervals = bootstrap_intervals(rows, seed=seed)
    p_values = list(map(paired_t, rows))
    corrected: list[float] = []
    for baseline in baselines:  # one family of tests after another, in the order of the pairs
        corrected += holm([p for p, pair in zip(p_values, pairs, strict=True) if pair[1] == baseline])
    tests = zip(p_values, corrected, strict=True)
    differences = [
        _difference(evaluations, *each) for each in zip(pairs, rows, intervals, tests, strict=True)
    ]
    return Comparison(evaluations, tuple(baselines), names, tuple(differences), level)


def comparison_table(comparison: Comparison) -> Table:
    """The means of all systems, with marks of significant differences."""
    marks = ", ".join(
        f"{comparison.mark(baseline)} differs from {baseline} (p < {comparison.level:g})"
        for baseline in comparison.baselines
    )
    test = f"Paired t-test over {count_noun(comparison.queries, 'query')}"
    family = "Holm's correction over all systems and measures of a baseline"
    notes = [f"{marks}. {test}, {family}."] * bool(marks)
    evaluations, names = comparison.evaluations, comparison.measures
    return means_table(evaluations, names, marks=comparison.marks, caption="Means", notes=notes)


def difference_table(comparison: Comparison, baseline: str) -> Table:
    """The differences from one baseline with their statistics."""
    rows = [
        {
            "system": row.system,
            "measure": row.measure,
            "mean": row.mean,
            "delta": Cell(f"{row.delta:+.4f}", strong=row.p_holm < comparison.level),
            "delta %": show_value(row.percent, "+.1f"),
            "p": show_p(row.p_holm),
            "d": show_value(row.effect, "+.2f"),
            "95% interval": f"[{row.low:+.4f}, {row.high:+.4f}]",
            "+/=/-": f"{row.wins}/{row.ties}/{row.losses}",
        }
        for row in comparison.differences
        if row.baseline == baseline
    ]
    note = (
        "delta: difference of the means; p: paired t-test with Holm's correction; d: Cohen's d of paired "
        "differences; interval of delta by bootstrap over the queries; +/=/-: queries that gain, stay, lose; "
        f"strong: p < {comparison.level:g}."
    )
    return Table.of_rows(rows, caption=f"Differences from {baseline}", notes=[note], left=2, form=".4f")


def changes_table(comparison: Comparison, baseline: str) -> Table:
    """The queries that changed most from one baseline, for each system and measure."""
    rows = []
    for difference in comparison.differences:
        system, name = difference.system, difference.measure
        new, old = (comparison.evaluations[run].of(name) for run in (system, baseline))
        for qid, delta in difference.changed if difference.baseline == baseline else ():
            rows.append((system, name, qid, old[qid], new[qid], f"{delta:+.4f}"))
    columns = ("system", "measure", "query", baseline, "system's", "delta")
    return Table.of(columns, rows, caption=f"Queries that changed most from {baseline}", left=3, form=".4f")


def _check(evaluations: Mapping[str, Evaluation], baselines: Sequence[str], measures: Sequence[str]) -> None:
    if len(set(baselines)) < len(baselines):
        raise ArgumentError(f"a baseline is given twice: {', '.join(baselines)}")
    for baseline in baselines:
        if baseline not in evaluations:
            raise ArgumentError(f"there is no system {baseline!r}; {known_names(evaluations, baseline)}")
    first = next(iter(evaluations))
    for system, evaluation in evaluations.items():
        if evaluation.qids != evaluations[first].qids:
            raise ArgumentError(f"{system!r} and {first!r} were measured on different queries")
        missing = [name for name in measures if name not in evaluation.values]
        if missing:
            raise ArgumentError(f"{system!r} was not measured by {', '.join(missing)}")


def _difference(
    evaluations: Mapping[str, Evaluation],
    pair: tuple[str, str, str],
    row: Differences,
    interval: tuple[float, float],
    test: tuple[float, float],
) -> Difference:
    """The difference of a pair; the test has its p and the same corrected."""
    system, baseline, name = pair
    mean, base = (float(evaluations[run].values[name].mean()) for run in (system, baseline))
    delta, qids = float(row.mean()), evaluations[system].qids
    order = np.argsort(-np.abs(row), kind="stable")[:_CHANGED]
    return Difference(
        system=system,
        baseline=baseline,
        measure=name,
        mean=mean,
        baseline_mean=base,
        delta=delta,
        percent=100.0 * delta / base if base else float("nan"),
        p=test[0],
        p_holm=test[1],
        effect=effect_size(row),
        low=interval[0],
        high=interval[1],
        wins=int((row > 0).sum()),
        ties=int((row == 0).sum()),
        losses=int((row < 0).sum()),
        changed=tuple((qids[i], float(row[i])) for i in order if row[i]),
    )


def means_table(
    evaluations: Mapping[str, Evaluation],
    measures: Sequence[str] = (),
    *,
    marks: Callable[[str, str], str] = lambda _system, _measure: "",
    caption: str = "",
    notes: Sequence[str] = (),
) -> Table:
    """The means: a row per system, a column per measure (default: all), the best of each measure strong.

    More than ten measures are rows, and the systems columns.
    """
    names = measures or next(iter(evaluations.values())).measures
    overall = {system: evaluation.mean for system, evaluation in evaluations.items()}
    rows: dict[str, dict[str, object]] = {}
    for name in names:
        means = {system: round(values[name], 4) for system, values in overall.items()}
        # of means as printed: those that look equal are equally best
        best = max(means.values()) if len(means) > 1 else None
        rows[name] = {
            system: Cell(format_value(name, mean), strong=mean == best, marks=marks(system, name))
            for system, mean in means.items()
        }
    if len(names) > _COLUMNS:
        return Table.pivot(rows, corner="measure", caption=caption, notes=notes)
    columns = {system: {name: rows[name][system] for name in names} for system in overall}
    return Table.pivot(columns, caption=caption, notes=notes)


def format_value(name: str, value: float) -> str:
    """The value of a measure in a table: four decimals, none for a count."""
    return f"{value:.0f}" if aggregate_name(name) == "sum" else f"{value:.4f}"


def depth_table(
    curves: Mapping[str, Mapping[str, Sequence[float]]], depths: Sequence[int], *, caption: str = ""
) -> Table:
    """``curves[system][measure]`` holds a mean per depth: a row per system and measure."""
    rows = [
        (system, name, *values)  # with three digits eight depths fit into 80 columns
        for system, measured in curves.items()
        for name, values in measured.items()
    ]
    return Table.of(("system", "measure", *(f"@{depth}" for depth in depths)), rows, caption=caption, left=2)


def columns_table(
    curves: Mapping[str, Sequence[float]], depths: Sequence[int], *, caption: str = ""
) -> Table:
    """A row per depth, a column per system, the best of each row strong.

    The other systems' cells show the change from the first, as in table 2 of RepBERT.
    """
    rows: dict[str, dict[str, object]] = {}
    base = next(iter(curves))
    for depth, *values in zip(depths, *curves.values(), strict=True):
        row, best = dict(zip(curves, values, strict=True)), round(max(values), 3)
        rows[str(depth)] = {
            system: Cell(
                f"{value:.3f}" if system == base else f"{value:.3f} {show_change(value, row[base]):>6}",
                strong=len(row) > 1 and round(value, 3) == best,
            )
            for system, value in row.items()
        }
    notes = [f"In brackets the change from {base}."] if len(curves) > 1 else []
    return Table.pivot(rows, corner="depth", caption=caption, notes=notes)


def query_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row per query and system, a column per measure; more than ten measures are rows."""
    first = next(iter(evaluations.values()))
    values = {system: evaluation.by_query() for system, evaluation in evaluations.items()}
    rows: list[dict[str, object]] = []
    for qid in first.qids:
        texts = {
            system: {name: format_value(name, value) for name, value in own[qid].items()}
            for system, own in values.items()
        }
        if len(first.measures) > _COLUMNS:
            for name in first.measures:
                by_system = {system: own[name] for system, own in texts.items()}
                rows.append({"query": qid, "measure": name, **by_system})
        else:
            rows += [{"query": qid, "system": system, **own} for system, own in texts.items()]
    return Table.of_rows(rows, left=2)


def _count_zero(count: int, all_queries: str, lacking: str) -> str:
    have, they = agree(count, "has", "have"), agree(count, "it counts", "they count")
    return f"{count} of {all_queries} {have} no {lacking}: {they} 0"


def describe_unjudged(count: int) -> str:
    """A line about queries of a run that the qrels lack."""
    are, they = agree(count, "is", "are"), agree(count, "it does", "they do")
    return f"{count_noun(count, 'query')} {are} not in the qrels: {they} not count"


def describe_gaps(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """A line for each kind of query that counts 0 or does not count, by system; which version is computed."""
    first = next(iter(evaluations.values()))
    of_answers = all(name in ANSWER_MEASURES for name in first.measures)
    queries, lines = len(first.qids), []
    if any(name.startswith(_BY_RECALL) and "trec_eval=10" not in name for name in first.measures):
        lines.append("interpolated precision: as trec_eval 9 rounds recall levels; (trec_eval=10) is 10's")
    all_queries = count_noun(queries, "question" if of_answers else "query")
    all_queries += "" if of_answers else " of the qrels"
    if count := len(first.unanswerable):
        lines.append(_count_zero(count, all_queries, "relevant document"))
    for system, evaluation in evaluations.items():
        if count := len(evaluation.missing):
            lacking = "prediction" if of_answers else "document"
            lines.append(f"{system}: {_count_zero(count, all_queries, lacking)}")
        if count := len(evaluation.unjudged):
            others = f"{count_noun(count, 'prediction')} of other questions: not counted"
            lines.append(f"{system}: {others if of_answers else describe_unjudged(count)}")
        lines += [f"{system}: {line}" for line in evaluation.relevant.describe()]
    return lines
