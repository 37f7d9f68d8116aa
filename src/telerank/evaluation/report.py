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
    means = {  # as printed, so that means that look equal are equally best
        system: [round(values[name], 4) for name in names] for system, values in overall.items()
    }
    best = [max(column) if len(means) > 1 else None for column in zip(*means.values(), strict=True)]
    rows: list[list[object]] = [
        [
            system,
            *(
                Cell(format_value(name, mean), strong=mean == highest, marks=marks(system, name))
                for name, mean, highest in zip(names, row, best, strict=True)
            ),
        ]
        for system, row in means.items()
    ]
    if len(names) > _COLUMNS:
        columns = [[row[i] for row in rows] for i in range(1, len(names) + 1)]
        rows = [[name, *cells] for name, cells in zip(names, columns, strict=True)]
        return Table.of(("measure", *overall), rows, caption=caption, notes=notes)
    return Table.of(("system", *names), rows, caption=caption, notes=notes)


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
    rows: list[list[object]] = []
    for depth, (first, *others) in zip(depths, zip(*curves.values(), strict=True), strict=True):
        best = round(max(first, *others), 3) if others else None
        changes = ["", *(f" {show_change(value, first):>6}" for value in others)]
        cells = [
            Cell(f"{value:.3f}{change}", strong=round(value, 3) == best)
            for value, change in zip((first, *others), changes, strict=True)
        ]
        rows.append([str(depth), *cells])
    return Table.of(
        ("depth", *curves),
        rows,
        caption=caption,
        notes=[f"In brackets the change from {next(iter(curves))}."] if len(curves) > 1 else [],
    )


def query_table(evaluations: Mapping[str, Evaluation]) -> Table:
    """A row per query and system, a column per measure; more than ten measures are rows."""
    first = next(iter(evaluations.values()))
    values = {
        system: {
            name: {qid: format_value(name, value) for qid, value in one.of(name).items()}
            for name in one.measures
        }
        for system, one in evaluations.items()
    }
    if len(first.measures) > _COLUMNS:
        return Table.of(
            ("query", "measure", *evaluations),
            [
                [qid, name, *(values[system][name][qid] for system in evaluations)]
                for qid in first.qids
                for name in first.measures
            ],
            left=2,
        )
    return Table.of(
        ("query", "system", *first.measures),
        [
            [qid, system, *(values[system][name][qid] for name in first.measures)]
            for qid in first.qids
            for system in evaluations
        ],
        left=2,
    )


def describe_gaps(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """A line for each kind of query that counts 0 or does not count, by system; which version is computed."""
    first = next(iter(evaluations.values()))
    if all(name in ANSWER_MEASURES for name in first.measures):
        return _describe_answer_gaps(evaluations)
    queries, lines = len(first.qids), []
    if any(name.startswith(_BY_RECALL) and "trec_eval=10" not in name for name in first.measures):
        lines.append("interpolated precision: as trec_eval 9 rounds recall levels; (trec_eval=10) is 10's")
    if count := len(first.unanswerable):
        lines.append(f"{count} of {queries} queries of the qrels have no relevant document: they count 0")
    for system, evaluation in evaluations.items():
        if count := len(evaluation.missing):
            lines.append(
                f"{system}: {count} of {queries} queries of the qrels have no document: they count 0"
            )
        if count := len(evaluation.unjudged):
            lines.append(f"{system}: {count} queries are not in the qrels: they do not count")
        lines += [f"{system}: {line}" for line in evaluation.relevant.describe()]
    return lines


def _describe_answer_gaps(evaluations: Mapping[str, Evaluation]) -> list[str]:
    lines = []
    for system, own in evaluations.items():
        if count := len(own.missing):
            lines.append(f"{system}: {count} of {len(own.qids)} questions have no prediction: they count 0")
        if count := len(own.unjudged):
            lines.append(f"{system}: {count} predictions are of other questions: they do not count")
    return lines
