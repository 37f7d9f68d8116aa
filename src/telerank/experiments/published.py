"""Tables of measured values, beside those that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telerank.evaluation.latency import Latency
from telerank.experiments.analysis import Published
from telerank.show.tables import Cell, Table, show_change, show_value

MS = "ms/query"
PAPER = "paper"
_PAD = " " * 7  # the width of a change, for cells without one


@dataclass(frozen=True)
class SystemQuality:
    """The means of a system by measure, their standard deviations over the seeds, its time per query.

    ``marks`` are those of significant differences, by measure.
    """

    mean: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)
    latency: Latency | None = None
    marks: Mapping[str, str] = field(default_factory=dict)

    def cell(self, column: str, best: float | None = None) -> Cell:
        """The cell of a measure or of the time, strong if it is ``best`` as printed."""
        if column == MS:
            return Cell(show_value(self.latency and self.latency.mean, ".2f"))
        mean = self.mean.get(column)
        spread = f" ± {self.spread[column]:.3f}" if column in self.spread else ""
        strong = mean is not None and round(mean, 3) == best
        return Cell(f"{show_value(mean)}{spread}", strong=strong, marks=self.marks.get(column, ""))


def quality_table(
    systems: Mapping[str, SystemQuality],
    published: Published,
    measures: Sequence[str],
    *,
    caption: str = "",
    notes: Sequence[str] = (),
) -> Table:
    """A row per system, measured or published; for each measure its mean and the published value.

    Published values of anything else (a hidden test set) are in columns of their own at the end.
    """
    printed = {column for row in published.values() for column in row}
    timed = MS in printed or any(system.latency for system in systems.values())
    columns = [*measures, *([MS] if timed else [])]
    others = sorted(printed - {*columns})
    best = {
        name: max((round(system.mean[name], 3) for system in systems.values() if system.mean), default=None)
        for name in measures
    }
    rows: list[list[str | Cell]] = []
    for name in dict.fromkeys((*systems, *published)):
        system, values = systems.get(name, SystemQuality({})), published.get(name, {})
        row: list[str | Cell] = [name]
        for column in columns:
            row.append(system.cell(column, best.get(column)))
            row += [_format_printed(values.get(column))] if column in printed else []
        rows.append([*row, *(_format_printed(values.get(column)) for column in others)])
    heads = [head for column in columns for head in (column, *([PAPER] if column in printed else []))]
    heads += [f"{column}, {PAPER}" for column in others]
    return Table.of(("system", *heads), rows, caption=caption, notes=notes)


def beside_published(
    facts: Mapping[str, Mapping[str, object]], published: Published
) -> dict[str, dict[str, object]]:
    """Facts by row and column, and after them the published values in columns of their own."""
    printed = dict.fromkeys(column for row in published.values() for column in row)
    return {
        name: {
            **facts.get(name, {}),
            **{f"{column}, {PAPER}": published.get(name, {}).get(column) for column in printed},
        }
        for name in (*facts, *published)
    }


def depth_tables(
    curves: Mapping[str, Sequence[float]],
    depths: Sequence[int],
    published: Published,
    spreads: Mapping[str, Sequence[float]],
    *,
    caption: str,
    changes: bool = False,
) -> tuple[Table, ...]:
    """A row per depth, a column per system; beside it the published values of the same system.

    ``spreads`` are standard deviations over seeds. Published values of systems that were not measured are a
    table of their own. With ``changes`` cells show the change from the first system, as in table 2 of
    RepBERT.
    """
    rows = [str(depth) for depth in depths]
    measured = {name: dict(zip(rows, values, strict=True)) for name, values in curves.items()}
    ours, theirs = (_format_curves(lines, rows, changes=changes) for lines in (measured, published))
    for name, values in spreads.items():
        parts = (text.partition(" ") for text in ours[name])  # ``0.304 (+8%)`` is ``0.304 ± 0.002 (+8%)``
        ours[name] = [
            f"{mean} ± {spread:.3f} {change}".rstrip()
            for (mean, _, change), spread in zip(parts, values, strict=True)
        ]
    columns = [("depth", rows)]
    for name, texts in ours.items():
        columns += [(name, texts), *([(PAPER, theirs[name])] if name in theirs else [])]
    notes = [f"In brackets the change from {next(iter(curves))}."] if changes and len(curves) > 1 else []
    notes += ["± is the standard deviation over the seeds of the trainings."] if spreads else []
    tables = [_join_columns(columns, caption, notes)]
    if published.keys() - measured.keys():
        rows = [depth for depth in rows if any(depth in row for row in published.values())]
        columns = [("depth", rows), *_format_curves(published, rows, changes=changes).items()]
        tables.append(_join_columns(columns, "All that the paper prints"))
    return tuple(tables)


def _format_curves(
    lines: Mapping[str, Mapping[str, float | None]], depths: Sequence[str], *, changes: bool
) -> dict[str, list[str]]:
    """The values of each system, with ``changes`` from the first system for the others."""
    first = next(iter(lines), "")
    bases = {name: lines[first] if changes and name != first else {} for name in lines}
    return {
        name: [_format_with_change(line.get(depth), bases[name].get(depth)) for depth in depths]
        for name, line in lines.items()
    }


def _join_columns(columns: Sequence[tuple[str, list[str]]], caption: str, notes: Sequence[str] = ()) -> Table:
    heads, texts = zip(*columns, strict=True)
    return Table.of(heads, zip(*texts, strict=True), caption=caption, notes=notes)


def published_matrix(published: Published, measure: str) -> Table:
    """The paper's own matrix of combinations; changes are computed from its values."""
    columns = list(dict.fromkeys(second for row in published.values() for second in row))
    rows = []
    for first, values in published.items():
        base = values.get(first)
        cells = [
            _format_with_change(values.get(second), None if second == first else base) for second in columns
        ]
        rows.append([first, *(cell if cell.endswith(")") else f"{cell}{_PAD}" for cell in cells)])
    note = "Changes are computed from the printed values; the paper's own are of values before rounding."
    heads = ("", *(f"+ {name}" for name in columns))
    return Table.of(heads, rows, caption=f"{measure}, {PAPER}", notes=[note])


def _format_with_change(value: float | None, base: float | None) -> str:
    if value is None or base is None:
        return show_value(value)
    return f"{value:.3f} {show_change(value, base):>6}"


def _format_printed(value: float | None) -> str:
    """A whole number of milliseconds, or three digits, as in the papers."""
    return show_value(value, ",.0f" if value is not None and value >= 2 else ".3f")
