"""Judgments as a service collects them: a line of JSON each, with the text of the query.

================  ====================================================================
``qid``           the same for the same words
``query``         the text of the query
``docno``         the document
``grade``         a whole number; above 0: relevant
``time``          when it was judged, as ``2026-11-22T09:30:00Z``
``index``         the name of the index in the service, which is the split; may be absent
================  ====================================================================

A collection is such a file, or a folder of such files. Of several judgments of a query and a document the
last counts. There are no documents. The source is the service itself (``telerank serve --judgments``); a file
has the licence of whoever collected it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    first_keys,
    list_few,
    plain_name,
    read_all,
    read_beginning,
)
from telerank.errors import CollectionError, FormatError, FormatWarning
from telerank.trec.files import Conditions, Format, check_id, decode, numbered_bytes, parse_object
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Doc, Qrel, Query

_KEYS = ("qid", "query", "docno", "grade")


@dataclass(frozen=True, slots=True)
class Judgment:
    """A grade of a document for a query, and when it was given (ISO 8601).

    Raises
    ------
    ValueError
        If the grade is beyond the limits, an id is empty or has a blank, or a text cannot be UTF-8.
    """

    qid: str
    query: str
    docno: str
    grade: int
    time: str = ""
    index: str = WHOLE

    def __post_init__(self) -> None:
        if not LEAST_GRADE <= self.grade <= HIGHEST_GRADE:
            raise ValueError(f"a grade is from {LEAST_GRADE:,} to {HIGHEST_GRADE:,}, got {self.grade}")
        f"{self.query}{self.docno}{self.index}".encode()
        for name in ("qid", "docno"):
            try:
                check_id(getattr(self, name), name, "judgment")
            except FormatError as error:
                raise ValueError(str(error)) from error

    def line(self) -> str:
        """The line of a file, with its end."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def read_judgments(path: str | Path, encoding: str = "utf-8") -> Iterator[Judgment]:
    """Read the judgments of a file, in its order.

    A line that is not a judgment, as a full disk may leave it, is left out with a FormatWarning.

    Raises
    ------
    FormatError
        If no line is a judgment.
    """
    count = bad = 0
    first_error: FormatError | None = None
    for number, line in numbered_bytes(path):
        try:
            text = decode(line, Path(path), encoding, number)
            judgment = parse_judgment(parse_object(path, number, text), path, number, text)
        except FormatError as error:
            first_error, bad = first_error or error, bad + 1
            continue
        count += 1
        yield judgment
    if first_error is None:
        return
    if not count:
        raise first_error
    more = f" (and {bad - 1:,} more)" if bad > 1 else ""
    # a collection reads its files several times: a warning of the same place is shown once
    warnings.warn(f"{first_error}; the line is left out{more}", FormatWarning, stacklevel=1)


def parse_judgment(record: dict[str, Any], path: str | Path, number: int | None, line: str) -> Judgment:
    """The judgment of a line's object; raises FormatError if a value is missing or not as expected."""
    kinds = {**dict.fromkeys((*_KEYS, "time", "index"), str), "grade": int}
    values = {name: record[name] for name in kinds if name in record}
    wrong = [name for name in _KEYS if name not in values]
    wrong += [name for name, value in values.items() if type(value) is not kinds[name]]
    if wrong:
        raise FormatError(path, number, f"a judgment with {', '.join(_KEYS)}, its grade a whole number", line)
    try:
        return Judgment(**values)
    except ValueError as error:
        raise FormatError(path, number, str(error), line) from error


def _conditions(path: Path) -> Conditions:
    files = list_few(path)
    keys = [_read_keys(file) for file in files if plain_name(file).endswith((".jsonl", ".json"))]
    yield any({"query", "docno", "grade"} <= own for own in keys), ""
    yield keys and len(keys) == len(files), "its name does not end in .jsonl"
    yield keys and all({*_KEYS} <= own for own in keys), f"its first line has not {', '.join(_KEYS)}"


def _read_keys(file: Path) -> set[str]:
    """The keys of the first lines' first judgment, since a line may be damaged; else of the first object."""
    text = read_beginning(file, 1 << 16)
    lines = map(first_keys, text.split("\n"))
    return next((keys for keys in lines if {*_KEYS} <= keys), first_keys(text))


def _open(path: Path, encoding: str) -> Collection:
    def read(split: str) -> Iterator[Judgment]:
        return (judgment for judgment in read_all(read_judgments, files, encoding) if judgment.index == split)

    def queries(split: str) -> Iterator[Query]:
        """Each query once, with the words in which it came first."""
        texts: dict[str, str] = {}
        for judgment in read(split):
            texts.setdefault(judgment.qid, judgment.query)
        return (Query(qid, text) for qid, text in texts.items())

    def qrels(split: str) -> Iterator[Qrel]:
        grades = {(judgment.qid, judgment.docno): judgment.grade for judgment in read(split)}
        return (Qrel(qid, docno, grade) for (qid, docno), grade in grades.items())

    def docs() -> Iterator[Doc]:
        raise CollectionError(f"{path} has only queries and judgments: no documents")

    files = list_few(path)
    splits = dict.fromkeys(judgment.index for judgment in read_all(read_judgments, files, encoding))
    return Collection(
        path.name,
        JUDGMENTS.name,
        docs,
        {split: partial(queries, split) for split in splits},
        {split: partial(qrels, split) for split in splits},
        size=0,
    )


JUDGMENTS = Format(
    "judgments", _conditions, _open, "judgments of a service, one a line: qid, query, docno, grade"
)
