"""Vectors of terms in files: JSON lines, as Anserini and Pyserini have them, and tables of one weight a term.

A line of a file of vectors is ``{"id": "d1", "vector": {"cat": 1.5, "dog": 0.25}}``; what else it has
(``contents``) is not read. A folder stands for its files in the order of their names. A table is one JSON
object, ``{"cat": 2.5, "dog": 1.0}``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from telerank.corpus.docstore import Docstore
from telerank.errors import CollectionError, FormatError, MissingWeights, count_noun, shorten
from telerank.sparse.weights.entry import WeightsEntry
from telerank.sparse.weights.writing import Take
from telerank.stored import file_checksum
from telerank.text import Analyzer
from telerank.trec import BOM, check_exists, decode, numbered_lines, open_bytes
from telerank.trec.files import describe_json, parse_object
from telerank.types import Progress

_ENDS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".jsonl.xz", ".json.xz")
LARGEST = float(2**24)
"""Weights are below it."""
_REPORTED = 1000  # vectors between two calls of progress
_LARGEST_TABLE = 1 << 28  # bytes


class VectorLine(NamedTuple):
    """A vector of a file: weights above 0 by term; ``docno`` may be that of a query."""

    docno: str
    weights: Mapping[str, float]
    path: Path
    line: int


def read_vectors(path: str | Path) -> Iterator[VectorLine]:
    """The vectors of a file, or of the files of a folder, one line after the other.

    Weights of 0 are left out.

    Raises
    ------
    CollectionError
        If there is no such file, or a folder has none.
    FormatError
        If a line is no vector, or a weight is negative, not finite or 2^24 and more.
    """
    for file in list_files(path):
        for number, line in numbered_lines(file):
            yield _read_line(file, number, line)


@dataclass(frozen=True)
class FileWeights:
    """The weights of documents in files, for an index: JSON lines."""

    path: str

    @cached_property
    def entry(self) -> WeightsEntry:
        """What the manifest of an index says of them."""
        return WeightsEntry(files=digest_files(list_files(self.path)))

    def weigh(self, docs: Docstore, analyzer: Analyzer, take: Take, progress: Progress) -> None:  # noqa: ARG002
        """Give ``take`` the vectors; a warning (MissingWeights) counts those of no document.

        Raises as :func:`read_vectors`, and FormatError if a document has two.
        """
        unknown = UnknownVectors(self.path)
        for number, vector in enumerate(read_vectors(self.path), 1):
            try:
                row = docs.docnos.row(vector.docno)
            except KeyError:
                unknown.add(vector.docno)
                continue
            if not take(row, vector.weights):
                raise FormatError(vector.path, vector.line, "one vector a document", vector.docno)
            if number % _REPORTED == 0:
                progress("reading weights", number, None)
        unknown.warn()


@dataclass
class UnknownVectors:
    """Counts the vectors of a file that are of no document."""

    path: str
    count: int = 0
    first: str = ""

    def add(self, docno: str) -> None:
        self.count, self.first = self.count + 1, self.first or docno

    def warn(self) -> None:
        """A warning (MissingWeights) if there are any."""
        if self.count:
            vectors = count_noun(self.count, "vector")
            note = f"{self.path}: {vectors} of no document that is indexed now, such as {shorten(self.first)}"
            warnings.warn(note, MissingWeights, stacklevel=3)


def digest_files(files: Sequence[Path]) -> str:
    """A checksum of the contents of all files."""
    return sha256("".join(file_checksum(file) for file in files).encode()).hexdigest()


def list_files(path: str | Path) -> list[Path]:
    """The files that a path stands for; raises CollectionError if there are none."""
    check_exists(path)
    if not Path(path).is_dir():
        return [Path(path)]
    files = sorted(file for file in Path(path).iterdir() if file.name.endswith(_ENDS))
    if not files:
        raise CollectionError(f"{path}: expected files of vectors ({', '.join(_ENDS[:3])}, …), got none")
    return files


def read_table(path: str | Path) -> dict[str, float]:
    """The weights above 0 of a table by term; raises as :func:`read_vectors`."""
    check_exists(path)
    with open_bytes(path) as file:
        content = file.read(_LARGEST_TABLE + 1)
    if len(content) > _LARGEST_TABLE:
        raise FormatError(path, None, f"a table of at most {_LARGEST_TABLE:,} bytes")
    record = parse_object(path, 1, decode(content.removeprefix(BOM), path, "utf-8"))
    return _check_weights(record, path, 1)


def _read_line(path: Path, number: int, line: str) -> VectorLine:
    record = parse_object(path, number, line)
    docno, vector = record.get("id"), record.get("vector")
    if isinstance(docno, int) and not isinstance(docno, bool):
        docno = str(docno)
    if not isinstance(docno, str) or not docno:
        raise FormatError(path, number, 'an "id", a text', describe_json(docno))
    if not isinstance(vector, dict):
        raise FormatError(path, number, 'a "vector", an object of weights by term', describe_json(vector))
    return VectorLine(docno, _check_weights(vector, path, number), path, number)


def _check_weights(vector: Mapping[str, Any], path: str | Path, number: int) -> dict[str, float]:
    for term, weight in vector.items():
        if not term:
            raise FormatError(path, number, "terms of a character or more", describe_json(term))
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < LARGEST or not math.isfinite(weight):
            expected = f"a weight of {shorten(term, 40)} from 0 to {LARGEST:,.0f}"
            raise FormatError(path, number, expected, describe_json(weight))
    return {term: float(weight) for term, weight in vector.items() if weight}
