"""The typed columns of a docstore: ``docs.columns.arrow``, if a document has any.

An Arrow IPC file with a column for each column of the documents, null where one has no value, and the rows of
``docs.arrow``. The kinds are known when the last document was seen: until then values are kept as lines of
JSON beside it, so that memory holds one batch.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from telerank.columns.kinds import SchemaBuilder, conform_value
from telerank.corpus.docnos import check_text
from telerank.errors import IndexDamaged
from telerank.types import ColumnValue, Doc

COLUMNS = "docs.columns.arrow"
_TYPES = {
    "boolean": pa.bool_(),
    "number": pa.float64(),
    "date": pa.date32(),
    "string": pa.string(),
    "list": pa.list_(pa.string()),
}
_KINDS = {kind: name for name, kind in _TYPES.items()}
_ROWS, _CHARACTERS = 1 << 16, 16 << 20  # of a batch


class ColumnWriter:
    """Writes the columns of documents; ``declared`` are kinds by name, others are inferred.

    ``kinds`` are those of the columns that were written, once it is closed.
    """

    def __init__(self, folder: Path, declared: Mapping[str, str]) -> None:
        self._target, self._raw = folder / COLUMNS, folder / f"{COLUMNS}.raw"
        self._part = folder / f"{COLUMNS}.part"
        self._builder = SchemaBuilder(declared)
        self._file = self._raw.open("wb", buffering=1 << 20)
        self._has_values, self._without = False, 0  # documents without values since the last with some
        self.kinds: dict[str, str] = {}

    def add(self, doc: Doc) -> None:
        """Keep the columns of the next document; raises DocumentError if one cannot be stored."""
        values = self._builder.add(doc) if doc.columns else None
        if not values:
            self._without += 1
            return
        line = json.dumps([doc.docno, values], ensure_ascii=False, default=str)
        try:
            self._file.write(b"\n" * self._without + line.encode() + b"\n")
        except UnicodeEncodeError:
            for name, value in values.items():
                check_text(
                    json.dumps(value, ensure_ascii=False, default=str), f"document {doc.docno!r}: its {name}"
                )
            raise
        self._has_values, self._without = True, 0

    def close(self) -> None:
        """Write the file; there is none if no document has a value."""
        self._file.write(b"\n" * self._without)
        self._file.close()
        if self._has_values:
            kinds = self.kinds = self._builder.finish()
            schema = pa.schema([pa.field(name, _TYPES[kind]) for name, kind in kinds.items()])
            with ipc.new_file(str(self._part), schema) as file:
                for rows in self._read_batches():
                    columns = [
                        pa.array(
                            [
                                None if name not in values else conform_value(docno, name, values[name], kind)
                                for docno, values in rows
                            ],
                            _TYPES[kind],
                        )
                        for name, kind in kinds.items()
                    ]
                    file.write_batch(pa.record_batch(columns, schema=schema))
            self._part.replace(self._target)
        self._raw.unlink()

    def discard(self) -> None:
        self._file.close()
        for path in (self._raw, self._part):
            path.unlink(missing_ok=True)

    def _read_batches(self) -> Iterator[list[tuple[str, dict[str, Any]]]]:
        rows: list[tuple[str, dict[str, Any]]] = []
        room = _CHARACTERS
        with self._raw.open("rb") as file:
            for line in file:
                rows.append(tuple(json.loads(line)) if len(line) > 1 else ("", {}))
                room -= len(line)
                if len(rows) == _ROWS or room <= 0:
                    yield rows
                    rows, room = [], _CHARACTERS
        if rows:
            yield rows


class ColumnReader:
    """The columns of a docstore by row, memory-mapped; none if the folder has no file of them."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._path, self.rows = folder / COLUMNS, rows
        self._batches: list[pa.RecordBatch] = []
        self.kinds: dict[str, str] = {}
        if self._path.is_file():
            self._open()

    def _open(self) -> None:
        try:
            file = ipc.open_file(pa.memory_map(str(self._path)))
            self._batches = [file.get_batch(number) for number in range(file.num_record_batches)]
            self.kinds = {field.name: _KINDS[field.type] for field in file.schema}
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise IndexDamaged(f"{self._path}: {error}") from error
        if sum(batch.num_rows for batch in self._batches) != self.rows:
            raise IndexDamaged(f"{self._path}: its rows are not those of the documents")

    @cached_property
    def _firsts(self) -> list[int]:
        firsts = [0]
        for batch in self._batches:
            firsts.append(firsts[-1] + batch.num_rows)
        return firsts

    def get_row(self, row: int) -> dict[str, ColumnValue]:
        """The values of a document, without those that it has not."""
        if not self._batches:
            return {}
        number = bisect_right(self._firsts, row) - 1
        batch, inside = self._batches[number], row - self._firsts[number]
        values = {}
        for name, kind, column in zip(self.kinds, self.kinds.values(), batch.columns, strict=True):
            if (value := column[inside].as_py()) is not None:
                values[name] = _PYTHON[kind](value) if kind in _PYTHON else value
        return values

    def column(self, name: str) -> pa.ChunkedArray | None:
        """The values of a column for all rows; None if there is no such column."""
        if name not in self.kinds:
            return None
        return pa.chunked_array([batch.column(name) for batch in self._batches], _TYPES[self.kinds[name]])


def _whole(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


_PYTHON: dict[str, Any] = {"number": _whole, "list": tuple}
