"""Tables of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from telerank.evaluation.answers.overlap import ANSWER_MEASURES
from telerank.evaluation.measures import Evaluation, aggregate_name
from telerank.show.tables import Cell, Table, show_change

_BY_RECALL = ("IPrec", "iprec_at_recall", "11pt_avg")
_COLUMNS = 10  # measures that a table has in columns; more are rows


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
    heads = ("system", "measure", *(f"@{depth}" for depth in depths))
    rows = [
        (system, name, *values)  # with three digits eight depths fit into 80 columns
        for system, measured in curves.items()
        for name, values in measured.items()
    ]
    return Table.of(heads, rows, caption=caption, left=2)


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


def describe_gaps(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """A line for each kind of query that counts 0 or does not count, by system; which version is computed."""
    first = next(iter(evaluations.values()))
    of_answers = all(name in ANSWER_MEASURES for name in first.measures)
    queries, lines = len(first.qids), []
    if any(name.startswith(_BY_RECALL) and "trec_eval=10" not in name for name in first.measures):
        lines.append("interpolated precision: as trec_eval 9 rounds recall levels; (trec_eval=10) is 10's")
    if count := len(first.unanswerable):
        lines.append(f"{count} of {queries} queries of the qrels have no relevant document: they count 0")
    lack = "questions have no prediction" if of_answers else "queries of the qrels have no document"
    others = "predictions are of other questions" if of_answers else "queries are not in the qrels"
    for system, evaluation in evaluations.items():
        if count := len(evaluation.missing):
            lines.append(f"{system}: {count} of {len(evaluation.qids)} {lack}: they count 0")
        if count := len(evaluation.unjudged):
            lines.append(f"{system}: {count} {others}: they do not count")
        lines += [f"{system}: {line}" for line in evaluation.relevant.describe()]
    return lines
