"""Measured values beside those that a paper prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telerank.evaluate.latency import Latency
from telerank.evaluate.report import format_change
from telerank.recipes.schema import Published
from telerank.show.tables import Cell, Table

MS = "ms/query"
PAPER = "paper"
_NONE = "–"
_PAD = " " * 7  # where a change stands in other cells


@dataclass(frozen=True)
class Measured:
    """By system: means by measure, their standard deviations over seeds where there are several, times."""

    means: Mapping[str, Mapping[str, float]]
    spread: Mapping[str, Mapping[str, float]]
    times: Mapping[str, Latency]


def quality_table(
    found: Measured,
    published: Published,
    measures: Sequence[str],
    *,
    systems: Sequence[str],
) -> Table:
    """A row for each system, measured or printed; each measure, and what the paper has for it.

    What the paper prints of other things (a hidden test set) stands in columns of its own, at the end.
    """
    printed = {column for row in published.values() for column in row}
    own = [*measures, MS]
    others = sorted(printed - set(own))
    heads: list[str] = []
    for column in own:
        heads += [column, *([PAPER] if column in printed else [])]
    rows: list[list[str | Cell]] = []
    means = found.means
    best = {name: max((round(one[name], 3) for one in means.values()), default=None) for name in measures}
    for system in dict.fromkeys((*systems, *published)):
        values = published.get(system, {})
        row: list[str | Cell] = [system]
        for column in own:
            measured = means.get(system, {}).get(column)
            time = found.times.get(system)
            shown = f"{time.mean:.2f}" if column == MS and time else _shown(measured)
            if spread := found.spread.get(system, {}).get(column):
                shown += f" ± {spread:.3f}"
            strong = measured is not None and round(measured, 3) == best.get(column)
            row += [
                Cell(shown, strong=strong),
                *([_printed(values.get(column))] if column in printed else []),
            ]
        rows.append([*row, *(_printed(values.get(column)) for column in others)])
    return Table.of(("system", *heads, *(f"{one}, {PAPER}" for one in others)), rows)


def depths_tables(
    curves: Mapping[str, Sequence[float]],
    depths: Sequence[int],
    published: Published,
    *,
    caption: str,
    changes: bool = False,
) -> tuple[Table, ...]:
    """A row for each depth, a column for each system; beside it what the paper has for the same system.

    What the paper has of systems that were not measured is a table of its own. With ``changes`` the change
    from the first system stands beside, as in table 2 of RepBERT.
    """
    measured = {name: dict(zip(map(str, depths), line, strict=True)) for name, line in curves.items()}
    columns: list[_Column] = []
    for name, values in measured.items():
        columns.append(_Column(name, values, _base(measured, name, changes=changes)))
        if name in published:
            columns.append(_Column(PAPER, published[name], _base(published, name, changes=changes)))
    notes = [f"In brackets the change from {next(iter(curves))}."] if changes and len(curves) > 1 else []
    tables = [_by_depth(columns, [str(one) for one in depths], caption, notes)]
    if any(name not in measured for name in published):
        others = [
            _Column(name, published[name], _base(published, name, changes=changes)) for name in published
        ]
        rows = [depth for depth in map(str, depths) if any(depth in one for one in published.values())]
        tables.append(_by_depth(others, rows, "All that the paper prints", []))
    return tuple(tables)


@dataclass(frozen=True)
class _Column:
    """Values by depth; where there is a ``base``, each is shown with its change from that."""

    head: str
    values: Mapping[str, float | None]
    base: Mapping[str, float | None] | None


def _base(
    lines: Mapping[str, Mapping[str, float | None]], name: str, *, changes: bool
) -> Mapping[str, float | None] | None:
    """What a system's values are compared with: the first system's, unless it is that itself."""
    first = next(iter(lines))
    return lines[first] if changes and name != first else None


def _by_depth(columns: Sequence[_Column], depths: Sequence[str], caption: str, notes: Sequence[str]) -> Table:
    rows = []
    for depth in depths:
        values = [(one.values.get(depth), one.base.get(depth) if one.base else None) for one in columns]
        rows.append([depth, *(_with_change(value, base) for value, base in values)])
    return Table.of(("depth", *(one.head for one in columns)), rows, caption=caption, notes=notes)


def published_matrix(published: Published, measure: str) -> Table:
    """The paper's own matrix, changes reckoned from its values."""
    columns = list(dict.fromkeys(second for row in published.values() for second in row))
    rows = []
    for first, values in published.items():
        base = values.get(first)
        cells = []
        for second in columns:
            shown = _with_change(values.get(second), None if second == first else base)
            cells.append(shown if shown.endswith(")") else f"{shown}{_PAD}")
        rows.append([first, *cells])
    note = "Changes are reckoned from the printed values; the paper's own are of values not rounded."
    heads = ("", *(f"+ {name}" for name in columns))
    return Table.of(heads, rows, caption=f"{measure}, {PAPER}", notes=[note])


def _with_change(value: float | None, base: float | None) -> str:
    if value is None or base is None:
        return _shown(value)
    return f"{value:.3f} {format_change(value, base):>6}"


def _shown(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _printed(value: float | None) -> str:
    """As the paper prints it: a whole number of milliseconds, three digits else."""
    return _NONE if value is None else (f"{value:,.0f}" if value >= 2 else f"{value:.3f}")
