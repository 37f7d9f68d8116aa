"""Reports: results that print themselves as tables and are saved in the format of a file's suffix."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telerank.drafts import replace_file
from telerank.errors import ArgumentError, MissingExtra
from telerank.parameters import check_methods
from telerank.show.tables import (
    Table,
    escape_controls,
    render_html,
    render_html_page,
    render_latex,
    render_markdown,
    render_terminal,
)

if TYPE_CHECKING:
    import pandas as pd

_WIDE = 400  # columns of a plain text: nothing is wrapped
Form = Literal["text", "markdown", "latex", "html", "csv", "json"]
"""The format of tables."""
_SUFFIXES: Mapping[str, Form] = {
    ".md": "markdown",
    ".tex": "latex",
    ".htm": "html",
    ".html": "html",
    ".csv": "csv",
    ".json": "json",
}
_OTHER_FILES = (".doc", ".docx", ".ods", ".odt", ".parquet", ".pdf", ".png", ".svg", ".xls", ".xlsx")
"""Suffixes of files that a text must not have, since nothing would open it."""


@check_methods("report")
class Report(ABC):
    """A result that is shown as tables: printed, in a notebook, or saved to a file."""

    @property
    def title(self) -> str:
        """The title of an HTML page."""
        return "Report"

    @abstractmethod
    def tables(self) -> Sequence[Table]: ...

    @property
    def remarks(self) -> Sequence[str]:
        """Notes beside the tables, such as queries that count 0."""
        return ()

    def record(self) -> Mapping[str, Any]:
        """The values as JSON has them: mappings, lists, texts and numbers."""
        return {"tables": [table_record(table) for table in self.tables()]}

    def render(self, form: Form = "text") -> str:
        """The report as text; ``form`` is a format of :data:`FORMS`."""
        return to_json(self.record()) if form == "json" else render_tables(self.tables(), form, self.title)

    def save(self, path: str | Path) -> None:
        """Write the report in the format of the suffix: .md, .tex, .html, .csv, .json, or plain text.

        Raises
        ------
        ArgumentError
            If the suffix is that of another kind of files.
        """
        replace_file(Path(path), self.render(form_of(path)).encode())

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return "".join(map(render_html, self.tables()))


def make_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """A data frame of rows.

    Raises
    ------
    MissingExtra
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise MissingExtra("pandas", "pandas") from error
    return pd.DataFrame([*rows], columns=[*columns])


def form_of(path: str | Path) -> Form:
    """The format of a file by its suffix; ``text`` if the suffix is none of the others.

    Raises
    ------
    ArgumentError
        If the suffix is that of another kind of files.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_FILES:
        raise ArgumentError(f"{path}: tables are saved as {', '.join(_SUFFIXES)} or .txt, not as {suffix}")
    return _SUFFIXES.get(suffix, "text")


def render_tables(tables: Sequence[Table], form: Form = "text", title: str = "") -> str:
    """The tables as one text; ``form`` is a format of :data:`FORMS`."""
    return FORMS[form](tables, title)


def render_text(tables: Sequence[Table]) -> str:
    """Plain text, as on a terminal of unlimited width."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, width=_WIDE, highlight=False, color_system=None)
    for i, table in enumerate(tables):
        console.print(*[""] * bool(i), render_terminal(table), sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def render_csv(tables: Sequence[Table]) -> str:
    """Comma-separated values; several tables follow each other, each after its caption and an empty line."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for i, table in enumerate(tables):
        if len(tables) > 1:
            writer.writerows([*[[]] * bool(i), [table.caption]])
        columns, rows = _plain(table)
        writer.writerows([columns, *rows])
    return file.getvalue()


def table_record(table: Table) -> dict[str, Any]:
    """A table as JSON has it; cells that are numbers are numbers, marks are columns of their own."""
    columns, rows = _plain(table)
    return {
        "caption": table.caption,
        "columns": columns,
        "rows": [[_number(text) for text in row] for row in rows],
        "notes": list(table.notes),
    }


def to_json(value: object) -> str:
    """JSON of standard values alone: infinity and NaN are null, control characters are escaped."""
    return escape_controls(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=1)) + "\n"


# The formats of tables, by name.
FORMS: Mapping[Form, Callable[[Sequence[Table], str], str]] = {
    "text": lambda tables, _: render_text(tables),
    "markdown": lambda tables, _: "\n".join(map(render_markdown, tables)),
    "latex": lambda tables, _: "\n".join(map(render_latex, tables)),
    "html": lambda tables, title: render_html_page(title or tables[0].caption, tables),
    "csv": lambda tables, _: render_csv(tables),
    "json": lambda tables, _: to_json({"tables": [table_record(table) for table in tables]}),
}


def _plain(table: Table) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of texts; a column with marks is followed by one of its marks."""
    columns: list[str] = []
    rows: list[list[str]] = [[] for _ in table.rows]
    for i, name in enumerate(table.columns):
        marked = any(row[i].marks for row in table.rows)
        columns += [name, f"{name} marks"] if marked else [name]
        for texts, row in zip(rows, table.rows, strict=True):
            texts += [row[i].text.strip(), row[i].marks] if marked else [row[i].text.strip()]
    return columns, rows


def _number(text: str) -> str | float:
    try:
        number = float(text)
    except ValueError:
        return text
    return (int(text) if text.isdecimal() else number) if math.isfinite(number) else text


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _finite(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value
