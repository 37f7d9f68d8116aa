"""Tables of measured values, beside those that a paper prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from telerank.experiments.analysis import Published
from telerank.show.tables import Cell, Table, show_change, show_value

MS = "ms/query"
PAPER = "paper"
_PAD = " " * 7  # the width of a change, for cells without one
_ROUNDED = "Changes are computed from the printed values; the paper's own are of values before rounding."


def show_printed(value: float | None, _column: str = "") -> str:
    """A whole number of milliseconds, or three digits, as in the papers."""
    return show_value(value, ",.0f" if value is not None and value >= 2 else ".3f")


def paper_table(
    rows: Mapping[str, Mapping[str, str | Cell]],
    columns: Sequence[str],
    published: Published,
    show: Callable[[float | None, str], str] = show_printed,
    *,
    caption: str = "",
    notes: Sequence[str] = (),
) -> Table:
    """A row for each name, measured or published; beside each of the columns what a paper prints in it.

    The first of the columns has the names. Published values of anything else (a hidden test set) are in
    columns of their own at the end. ``show`` formats the published values of a column.
    """
    names = list(dict.fromkeys((*rows, *published)))
    texts: dict[str, list[str]] = {}
    for column in dict.fromkeys(column for row in published.values() for column in row):
        values = (published.get(name, {}).get(column) for name in names)
        texts[column] = [show(value, column) for value in values]
    joined: list[tuple[str, Sequence[object]]] = [(columns[0], names)]
    for column in columns[1:]:
        joined.append((column, [rows.get(name, {}).get(column) for name in names]))
        joined += [(PAPER, texts.pop(column))] if column in texts else []
    joined += [(f"{column}, {PAPER}", texts[column]) for column in sorted(texts)]
    return _join_columns(joined, caption, notes)


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
        printed = {depth for row in published.values() for depth in row}
        rows = sorted(filter(str.isdecimal, printed), key=int)  # others are of other analyses
        columns = [("depth", rows), *_format_curves(published, rows, changes=changes).items()]
        rounded = [_ROUNDED] if changes else []
        tables.append(_join_columns(columns, "All that the paper prints", rounded))
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


def _join_columns(
    columns: Sequence[tuple[str, Sequence[object]]], caption: str, notes: Sequence[str] = ()
) -> Table:
    heads, texts = zip(*columns, strict=True)
    return Table.of(heads, zip(*texts, strict=True), caption=caption, notes=notes)


def published_matrix(published: Published, measure: str) -> Table:
    """The paper's own matrix of combinations; changes are computed from its values."""
    columns = list(dict.fromkeys(second for row in published.values() for second in row))
    rows = []
    for first, values in published.items():
        bases = {second: None if second == first else values.get(first) for second in columns}
        cells = [_format_with_change(values.get(second), base) for second, base in bases.items()]
        rows.append([first, *(cell if cell.endswith(")") else f"{cell}{_PAD}" for cell in cells)])
    return Table.of(
        ("", *(f"+ {name}" for name in columns)),
        rows,
        caption=f"{measure}, {PAPER}",
        notes=[_ROUNDED],
    )


def _format_with_change(value: float | None, base: float | None) -> str:
    if value is None or base is None:
        return show_value(value)
    return f"{value:.3f} {show_change(value, base):>6}"
