"""Tables in files: Markdown, LaTeX, HTML, CSV or JSON by the suffix."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from telerank.errors import FormatError
from telerank.show.tables import Table, render_html_page, render_latex, render_markdown


def render_csv(table: Table) -> str:
    """The cells, without marks and notes, under the columns' names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([cell.text.strip() for cell in row] for row in table.rows)
    return text.getvalue()


def render_json(tables: Sequence[Table]) -> str:
    """A list of tables with caption, columns, rows and notes; marks stand behind the text of a cell."""
    records = [
        {
            "caption": table.caption,
            "columns": list(table.columns),
            "rows": [[f"{cell.text.strip()}{cell.marks}" for cell in row] for row in table.rows],
            "notes": list(table.notes),
        }
        for table in tables
    ]
    return json.dumps(records, ensure_ascii=False, indent=1) + "\n"


_RENDERERS: Mapping[str, Callable[[Sequence[Table], str], str]] = {
    ".md": lambda tables, _: "\n".join(map(render_markdown, tables)),
    ".tex": lambda tables, _: "\n".join(map(render_latex, tables)),
    ".html": lambda tables, title: render_html_page(title, tables),
    ".htm": lambda tables, title: render_html_page(title, tables),
    ".csv": lambda tables, _: "\n".join(map(render_csv, tables)),
    ".json": lambda tables, _: render_json(tables),
}
SUFFIXES = tuple(_RENDERERS)


def save_tables(tables: Sequence[Table], path: str | Path, *, title: str = "") -> None:
    """Write tables into a file.

    Raises
    ------
    FormatError
        If the suffix is unknown.
    """
    renderer = _RENDERERS.get(Path(path).suffix.lower())
    if renderer is None:
        raise FormatError(path, None, f"a name that ends in {', '.join(SUFFIXES)}")
    Path(path).write_text(renderer(tables, title), encoding="utf-8")
