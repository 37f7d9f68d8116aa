"""The first sheet of a spreadsheet that has some columns; to be called where memory and time are limited."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_UNPACKED = 512 << 20  # bytes
_MOST_CELLS, _MOST_CHARACTERS = 5_000_000, 64 << 20


def read_sheet(path: Path, has_columns: Callable[[Sequence[str]], bool]) -> dict[str, Any]:
    """The name and the rows of the first sheet whose first row is accepted; None if there is none.

    ``names`` are those of all sheets, ``first`` is the number of the first row.

    Raises
    ------
    ValueError
        If it is too large.
    Exception
        Whatever the library raises of a damaged file.
    """
    from python_calamine import load_workbook

    with zipfile.ZipFile(path) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > _UNPACKED:
        raise ValueError(f"it unpacks to more than {_UNPACKED >> 20} MiB")
    workbook = load_workbook(path)
    for name in workbook.sheet_names:
        sheet = workbook.get_sheet_by_name(name)
        if sheet.height * sheet.width > _MOST_CELLS:
            raise ValueError(f"sheet {name!r} has more than {_MOST_CELLS:,} cells")
        if sum(len(str(cell)) for row in sheet.iter_rows() for cell in row) > _MOST_CHARACTERS:
            raise ValueError(f"sheet {name!r} has more than {_MOST_CHARACTERS >> 20} million characters")
        rows = [[_text(cell) for cell in row] for row in sheet.to_python(skip_empty_area=True)]
        if rows and has_columns(rows[0]):
            start = sheet.start or (0, 0)
            return {"sheet": name, "names": workbook.sheet_names, "first": start[0] + 1, "rows": rows}
    return {"sheet": None, "names": workbook.sheet_names, "first": 1, "rows": []}


def _text(cell: object) -> str:
    """The text of a cell; whole numbers have no decimals."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
