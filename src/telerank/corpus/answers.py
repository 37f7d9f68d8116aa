"""Answers as files: JSON lines that say where in which document a query is answered.

A line is an object ``{"query-id": "q1", "corpus-id": "d7", "text": "in 1969", "start": 1204}``: ``text``
begins at character ``start`` of the document's text (without its title). Other keys are ignored. Several
lines of one query and document are alternatives (annotators mark the same answer differently), or further
answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from telerank.errors import FormatError
from telerank.trec.files import numbered_lines, open_to_write, parse_object
from telerank.types import Answer

_EXPECTED = "an object with query-id, corpus-id, text and start"


def read_answers(path: str | Path) -> Iterator[Answer]:
    """Read the answers of a file, in its order; raises FormatError for a line that is no answer."""
    for number, line in numbered_lines(path):
        record = parse_object(path, number, line)
        qid, docno, text = (_text(record.get(key)) for key in ("query-id", "corpus-id", "text"))
        start = record.get("start")
        if not (qid and docno and text):
            raise FormatError(path, number, _EXPECTED, line)
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            raise FormatError(path, number, f"{_EXPECTED}, 0 or more", line)
        yield Answer(qid, docno, text, start)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def write_answers(path: str | Path, answers: Iterable[Answer]) -> None:
    """Write answers so that :func:`read_answers` reads the same ones, but for their scores."""
    write_records(path, map(answer_record, answers))


def answer_record(answer: Answer) -> dict[str, Any]:
    """The object of an answer's line."""
    return {
        "query-id": answer.qid,
        "corpus-id": answer.docno,
        "text": answer.text,
        "start": answer.start,
    }


def write_records(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON lines."""
    with open_to_write(path) as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
