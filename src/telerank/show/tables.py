"""A table as a value, rendered on a terminal, in Markdown, LaTeX and HTML."""

from __future__ import annotations

import html as markup
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from telerank.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as RichTable


_GAP = 2  # between columns on a terminal
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Cell:
    """A text, in bold if ``strong``, followed by superscript ``marks``."""

    text: str
    strong: bool = False
    marks: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells, one for each column; the first ``left`` columns hold text, the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()
    left: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ArgumentError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns")

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        rows: Iterable[Iterable[object]],
        *,
        caption: str = "",
        notes: Sequence[str] = (),
        left: int = 1,
        form: str = ".3f",
    ) -> Table:
        """Make a table of rows of texts, cells and numbers (see :func:`show_value`)."""
        cells = tuple(
            tuple(value if isinstance(value, Cell) else Cell(show_value(value, form)) for value in row)
            for row in rows
        )
        return cls(tuple(columns), cells, caption, tuple(notes), left)

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, object]], **settings: Any) -> Table:
        """Make a table of rows of values by column, as :meth:`of`; a value that a row lacks is a dash."""
        rows = list(rows)
        columns = list(dict.fromkeys(column for row in rows for column in row))
        return cls.of(columns, (map(row.get, columns) for row in rows), **settings)

    @classmethod
    def pivot(
        cls, facts: Mapping[str, Mapping[str, object]], *, corner: str = "system", **settings: Any
    ) -> Table:
        """Make a table of facts by row and column, as :meth:`of_rows`."""
        return cls.of_rows(({corner: name, **row} for name, row in facts.items()), **settings)


def escape_controls(text: str) -> str:
    """JSON whose control characters of the terminal are escapes of JSON; its line ends stay."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(text: str) -> str:
    """A text whose control characters of the terminal are \ufffd.

    These are escape sequences, marks of writing direction and lone surrogates.
    """
    return _CONTROL.sub("\ufffd", text)


def show_value(value: object, form: str = ".3f") -> str:
    """``1,000`` of a count, another number in the format, a dash for None and NaN; else the text."""
    match value:
        case float() if math.isinf(value):
            return "+∞" if value > 0 else "-∞"
        case float() if not math.isnan(value):
            return f"{value:{form}}"
        case None | float():
            return "–"
        case int():
            return f"{value:,}"
    return str(value)


def show_p(p: float) -> str:
    """The p of a test with three digits, or ``<0.001``."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def show_change(value: float, base: float) -> str:
    """The change in percent: ``(+8%)``."""
    return f"({100.0 * (value - base) / base:+.0f}%)" if base else "(–)"


def show_interval(low: float, high: float, form: str = ".3f") -> str:
    """``0.100 to 0.200``."""
    return f"{low:{form}} to {high:{form}}"


def render_terminal(table: Table) -> RenderableType:
    """A renderable for a rich console.

    If a table is too wide, the heads of number columns are wrapped, then the cells of one column; if that
    is not enough, the number columns are printed in several parts below each other.
    """
    from rich.console import Group
    from rich.text import Text

    # above the table: rich wraps a table's own title at the width of the table
    caption = [Text(plain(table.caption), "italic")] if table.caption else []
    return Group(*caption, _FittedTable(table), *(Text(plain(note), "dim") for note in table.notes))


@dataclass(frozen=True)
class _FittedTable:
    """The table, fitted to the width of the console."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, table = options.max_width, self.table
        broken = sum(_widths(table, broken=False)) > room
        excess = sum(_widths(table, broken=broken)) - room
        wide, least = (_widths(table, broken=True, separator=separator) for separator in ("\n", None))
        slack = [width - minimum for width, minimum in zip(wide, least, strict=True)]
        if excess <= 0:
            yield _grid(table, broken=broken)
        elif table.left >= len(table.columns):
            yield _grid(table, broken=True, narrow=_wrapped_widths(table, room))
        elif excess <= max(slack):
            i = slack.index(max(slack))
            yield _grid(table, broken=True, narrow={i: wide[i] - _GAP - excess})
        else:
            yield from (_grid(part, broken=True) for part in _parts(table, room))


def _grid(table: Table, *, broken: bool, narrow: Mapping[int, int] | None = None) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    texts = []
    for i in range(len(table.columns)):
        width = (narrow or {}).get(i)
        column = _aligned(table, i, broken=broken)
        head, *cells = column if width is None else [text.strip() for text in column]
        side: Literal["left", "right"] = "left" if width is None or i < table.left else "right"
        shown.add_column(Text(head), overflow="fold", width=width, justify=side)
        styles = ("bold" if row[i].strong else "" for row in table.rows)
        texts.append([Text(text, style) for text, style in zip(cells, styles, strict=True)])
    for row in zip(*texts, strict=True):
        shown.add_row(*row)
    return shown


def _parts(table: Table, room: int) -> Iterator[Table]:
    """Split the number columns into tables that fit, each with the text columns and one number or more."""
    part: list[int] = []
    for i in range(table.left, len(table.columns)):
        wider = _select(table, [*range(table.left), *part, i])
        if part and sum(_widths(wider, broken=True)) > room:
            yield _select(table, [*range(table.left), *part])
            part = []
        part.append(i)
    yield _select(table, [*range(table.left), *part])


def _select(table: Table, columns: Sequence[int]) -> Table:
    return Table(
        tuple(table.columns[i] for i in columns),
        tuple(tuple(row[i] for i in columns) for row in table.rows),
        left=table.left,
    )


def _widths(table: Table, *, broken: bool, separator: str | None = "\n") -> list[int]:
    """The width of each column, with ``separator`` None if it is wrapped at every space."""
    columns = [_aligned(table, i, broken=broken) for i in range(len(table.columns))]
    return [
        max((len(part) for text in column for part in text.split(separator)), default=0) + _GAP
        for column in columns
    ]


def _wrapped_widths(table: Table, room: int) -> dict[int, int]:
    """The widths of columns of words in which no word is broken; empty (rich decides) if there is no room.

    What the longest words leave goes to the first columns, up to their longest texts.
    """
    least = _widths(table, broken=True, separator=None)
    spare = room - sum(least)
    widths: dict[int, int] = {}
    for i, whole in enumerate(_widths(table, broken=True) if spare >= 0 else ()):
        more = min(spare, max(whole - least[i], 0))
        widths[i] = least[i] + more - _GAP
        spare -= more
    return widths


def _aligned(table: Table, i: int, *, broken: bool) -> list[str]:
    """The head and cells of a column, padded as if every cell had marks, so that digits align."""
    head, cells = plain(table.columns[i]), [replace(row[i], text=plain(row[i].text)) for row in table.rows]
    if i < table.left:
        return [head, *(cell.text + cell.marks for cell in cells)]
    room = max((len(cell.marks) for cell in cells), default=0)
    texts = [cell.text + cell.marks.ljust(room) for cell in cells]
    widest = max(map(len, texts), default=0)
    lines = wrap(head, max(widest, *map(len, head.split()))) if broken and head else [head]
    width = max(widest, *map(len, lines))
    return ["\n".join(line.rjust(width) for line in lines), *(text.rjust(width) for text in texts)]


def render_markdown(table: Table) -> str:
    """A GitHub-flavoured Markdown table; marks are ``<sup>`` elements."""
    rule = [":--" if i < table.left else "--:" for i in range(len(table.columns))]
    lines = [[*map(_md, table.columns)], rule, *([_md_cell(cell) for cell in row] for row in table.rows)]
    parts = [f"**{_md(table.caption)}**"] if table.caption else []
    parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, *map(_md, table.notes)]) + "\n"


def render_latex(table: Table) -> str:
    r"""A LaTeX ``table`` environment that uses the package ``booktabs``."""
    form = "l" * min(table.left, len(table.columns)) + "r" * (len(table.columns) - table.left)
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_tex(table.caption)}}}"] if table.caption else []),
        rf"\begin{{tabular}}{{{form}}}",
        r"\toprule",
        " & ".join(map(_tex, table.columns)) + r" \\",
        r"\midrule",
        *(" & ".join(map(_tex_cell, row)) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {_tex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def render_html(table: Table) -> str:
    """A ``<figure>`` with the table, its caption and its notes; number columns have the class ``n``."""

    def line(tag: str, texts: Iterable[str]) -> str:
        kinds = ("" if i < table.left else ' class="n"' for i in range(len(table.columns)))
        cells = zip(kinds, texts, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{text}</{tag[:2]}>' for kind, text in cells)}</tr>"

    head = line('th scope="col"', map(markup.escape, table.columns))
    body = "\n".join(line("td", map(_html, row)) for row in table.rows)
    caption = f"<caption>{markup.escape(table.caption)}</caption>\n" if table.caption else ""
    notes = "".join(f"\n<p>{markup.escape(note)}</p>" for note in table.notes)
    tail = f"\n<figcaption>{notes}\n</figcaption>" if notes else ""
    content = f"<table>\n{caption}<thead>\n{head}\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f"<figure>\n{content}{tail}\n</figure>\n"


def render_html_page(title: str, tables: Sequence[Table]) -> str:
    """A complete HTML page of these tables."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{markup.escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{markup.escape(title)}</h1>\n{''.join(map(render_html, tables))}</body>\n</html>\n"
    )


_STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 2rem 0; overflow-x: auto; }
table { border-collapse: collapse; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .75rem; text-align: left; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; }
thead { border-top: 2px solid; border-bottom: 1px solid; }
tbody { border-bottom: 2px solid; }
figcaption p { margin: .3rem 0; font-size: .9rem; }
"""


def _md(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def _md_cell(cell: Cell) -> str:
    text = f"**{_md(cell.text)}**" if cell.strong and cell.text else _md(cell.text)
    return f"{text}<sup>{_md(cell.marks)}</sup>" if cell.marks else text


_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "∞": r"$\infty$", "†": r"$\dagger$", "‡": r"$\ddagger$",
    "§": r"\S{}", "¶": r"\P{}", "–": "--", "…": r"\ldots{}", "[": "{[}", "]": "{]}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}  # fmt: skip


def _tex(text: str) -> str:
    return re.sub(
        r"(?<![\w-])-(?=[\d$])", "$-$", "".join(_TEX.get(char, char) for char in text)
    )  # a minus, not a hyphen


def _tex_cell(cell: Cell) -> str:
    text = rf"\textbf{{{_tex(cell.text)}}}" if cell.strong else _tex(cell.text)
    return rf"{text}\textsuperscript{{{_tex(cell.marks)}}}" if cell.marks else text


def _html(cell: Cell) -> str:
    text = markup.escape(cell.text)
    strong = f"<strong>{text}</strong>" if cell.strong else text
    return f"{strong}<sup>{markup.escape(cell.marks)}</sup>" if cell.marks else strong
