r"""CSV and TSV files with a header, one document a line; and ``passages.tsv`` without a header.

The header names the columns like the keys of :mod:`.jsonl`, in any case and order: ``docno`` (``_id``,
``id``, …), ``text`` (``contents``, ``body``, …), ``title``, ``url``; other columns are ignored. In CSV,
columns are separated by commas, semicolons or tabs, as the header shows; fields may be quoted and contain
these signs and line ends. In TSV, quotes have no meaning and fields contain no tab. A collection is one file,
or a folder of such files only.

``passages.tsv`` has no header and three columns: number, source, text. The source becomes the document's url,
which is not searched. These are file formats, not data sets: source and licence are those of the texts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.readers.jsonl import DOCNO_KEYS, TEXT_KEYS
from telerank.corpus.reading import (
    find_file,
    list_files,
    plain_name,
    read_all,
    read_beginning,
    read_columns,
    read_first_lines,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import (
    LONGEST,
    Conditions,
    Format,
    decode,
    first_value,
    numbered_lines,
    open_bytes,
    raw_lines,
)
from telerank.types import Doc

_NAMES = {"docno": DOCNO_KEYS, "text": TEXT_KEYS, "title": ("title",), "url": ("url",)}
_HEADER = f"a header with a column {' or '.join(DOCNO_KEYS)} and a column {' or '.join(TEXT_KEYS)}"


def read_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of a CSV or TSV file with a header."""
    if _suffix(path) == ".csv":
        rows = _csv_rows(path, encoding)
    else:
        rows = ((number, line.split("\t")) for number, line in numbered_lines(path, encoding))
    number, header = next(rows, (1, []))
    columns = _columns(header)
    if not {"docno", "text"} <= columns.keys():
        raise FormatError(path, number, _HEADER, ", ".join(header))
    for number, row in rows:
        if len(row) != len(header):
            raise FormatError(path, number, f"{len(header)} columns as in the header", ", ".join(row))
        fields = {field: row[column] for field, column in columns.items()}
        yield Doc(fields["docno"], fields["text"], fields.get("title", ""), fields.get("url", ""))


def read_passages(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of ``passages.tsv``: number, source, text."""
    for _, (number, source, text) in read_columns(path, encoding, "number source text"):
        yield Doc(number, text, url=source)


def _csv_rows(path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the number of their last line; blank lines are skipped."""
    csv.field_size_limit(LONGEST)  # the default, 128 KiB, holds for the whole process
    with open_bytes(path) as file:
        lines = (decode(line, path, encoding, number) for number, line in raw_lines(path, file))
        first = next(lines, "")
        reader = csv.reader(chain([first], lines), delimiter=_delimiter(first), strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise FormatError(path, reader.line_num, f"CSV ({error})") from error


def _columns(header: list[str]) -> dict[str, int]:
    """The column of each field of a document; of several names the first in the header counts."""
    columns = {name.strip().lower(): column for column, name in reversed([*enumerate(header)])}
    fields = {field: first_value(columns, names) for field, names in _NAMES.items()}
    return {field: column for field, column in fields.items() if column is not None}


def _conditions(path: Path) -> Conditions:
    files = list_files(path)
    tables = _files(path)
    other = next((file.name for file in files if file not in tables), "")
    plain = next((file.name for file in tables or files if not _has_header(file)), "")
    yield (
        any(sign in line for file in files[:1] for line in read_first_lines(file)[:1] for sign in "\t,;"),
        "",
    )
    yield not plain, f"the first line of {plain} does not name docno (or id) and text (or contents)"
    yield tables, "no file in it ends in .csv or .tsv"
    if other:
        yield False, f"{other}: its name ends neither in .csv nor in .tsv"


def _files(path: Path) -> list[Path]:
    return [file for file in list_files(path) if file.is_file() and _suffix(file) in {".csv", ".tsv"}]


def _suffix(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower()


def _has_header(path: Path) -> bool:
    first = next(iter(read_beginning(path).splitlines()), "")
    header = first.split("\t") if _suffix(path) == ".tsv" else _split_header(first, _delimiter(first))
    return {"docno", "text"} <= _columns(header).keys()


def _delimiter(header: str) -> str:
    """The sign that gives the header its columns; a comma if none does."""
    fits = (sign for sign in ",;\t" if {"docno", "text"} <= _columns(_split_header(header, sign)).keys())
    return next(fits, ",")


def _split_header(header: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([header.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:  # a zero byte, or a field beyond the limit
        return []


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path)
    if not files or len(files) < len(list_files(path)):
        raise CollectionError(f"{path}: expected a .csv or .tsv file, or a folder of such files only")
    return Collection(path.name, CSV.name, partial(read_all, read_docs, files, encoding))


def _passages_conditions(path: Path) -> Conditions:
    file = path if plain_name(path) == "passages.tsv" else find_file(path, "passages.tsv")
    yield file, "no passages.tsv (or .gz, .xz)"
    yield file and not _has_header(file), "passages.tsv has a header"


def _open_passages(path: Path, encoding: str) -> Collection:
    file = path if plain_name(path) == "passages.tsv" else require_file(path, "passages.tsv")
    unread = unread_files(path, [file])
    return Collection(path.name, PASSAGES.name, partial(read_passages, file, encoding), unread=unread)


CSV = Format(
    "csv", _conditions, _open, "CSV or TSV with a header that names docno (or id) and text (or contents)"
)
PASSAGES = Format("passages", _passages_conditions, _open_passages, "passages.tsv: number, source, text")
