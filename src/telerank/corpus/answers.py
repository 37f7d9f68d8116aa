"""Answers as files: spans of documents as JSON lines, and predictions.

A line of answers is an object ``{"query-id": "q1", "corpus-id": "d7", "text": "in 1969", "start": 1204}``:
``text`` begins at character ``start`` of the document's text (without its title). Other keys are ignored.
Several lines of one query and document are alternatives (annotators mark the same answer differently), or
further answers. Predictions are

==============  =====================================================================================
SQuAD's JSON    an object from question ids to texts; the empty text is no answer. Values of no-answer
                are a file of their own: an object from question ids to numbers
lines           ``{"query-id": "q1", "text": "in 1969"}``, other keys are ignored; of several lines of
                a query the first is its answer, later ones are further answers, best first; or a list
                of ``answers`` with a ``text`` each, best first, which is empty if there is no answer
==============  =====================================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from telerank.errors import FormatError
from telerank.trec.files import describe_json, numbered_lines, open_to_write, parse_json, parse_object
from telerank.types import Answer

_EXPECTED = "an object with query-id, corpus-id, text and start"


def read_answers(path: str | Path) -> Iterator[Answer]:
    """Read the answers of a file, in its order; raises FormatError for a line that is no answer."""
    for number, line in numbered_lines(path):
        record = parse_object(path, number, line)
        match record:
            case {"query-id": str(qid), "corpus-id": str(docno), "text": str(text)} if qid and docno and text:
                start = record.get("start")
            case _:
                raise FormatError(path, number, _EXPECTED, line)
        if not isinstance(start, int) or isinstance(start, bool) or start < 0:
            raise FormatError(path, number, f"{_EXPECTED}, 0 or more", line)
        yield Answer(qid, docno, text, start)


def write_answers(path: str | Path, answers: Iterable[Answer]) -> None:
    """Write answers so that :func:`read_answers` reads the same ones, but for their scores."""
    keys = ("query-id", "corpus-id", "text", "start")
    values = ((answer.qid, answer.docno, answer.text, answer.start) for answer in answers)
    write_records(path, (dict(zip(keys, value, strict=True)) for value in values))


def write_records(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON lines."""
    with open_to_write(path) as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


_WHOLE = "an object from question ids to the texts of their answers"


def is_predictions_file(path: str | Path) -> bool:
    """Whether the file begins as JSON does that holds predictions, and no run: with a brace."""
    if str(path) == "-" or not Path(path).is_file():
        return False
    try:
        return next((line.lstrip("\ufeff \t")[:1] == "{" for _, line in numbered_lines(path)), False)
    except FormatError:
        return False


def read_predictions(path: str | Path) -> dict[str, str]:
    """The text of each question's answer.

    Raises FormatError if the file is neither SQuAD's JSON nor lines, or a question comes twice in the former.
    """
    lines = list(numbered_lines(path))
    if not lines:
        raise FormatError(path, None, _WHOLE, "an empty file")
    if not _is_line(lines[0][1]):
        return {qid: _check_text(path, None, qid, text) for qid, text in _parse_whole(path, lines).items()}
    texts: dict[str, str] = {}
    for number, line in lines:
        record = parse_object(path, number, line)
        qid = record.get("query-id")
        if not isinstance(qid, str) or not qid:
            raise FormatError(path, number, "an object with query-id and text", line)
        first = record
        if isinstance(answers := record.get("answers"), list):
            first = answers[0] if answers else {"text": ""}
        text = first.get("text") if isinstance(first, dict) else None
        texts.setdefault(qid, _check_text(path, number, qid, text))
    return texts


def read_no_answer(path: str | Path) -> dict[str, float]:
    """The value of no-answer of each question, from SQuAD's JSON of numbers.

    Raises FormatError if the file holds something else.
    """
    record = _parse_whole(path, list(numbered_lines(path)))
    for qid, value in record.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise FormatError(path, None, f"a number as the value of no-answer of {qid!r}", repr(value))
    return {qid: float(value) for qid, value in record.items()}


def write_predictions(path: str | Path, predictions: Mapping[str, str]) -> None:
    """Write texts by question id as SQuAD's JSON."""
    _write_whole(path, predictions)


def write_no_answer(path: str | Path, values: Mapping[str, float]) -> None:
    """Write values of no-answer by question id as SQuAD's JSON."""
    _write_whole(path, values)


def _write_whole(path: str | Path, record: Mapping[str, Any]) -> None:
    with open_to_write(path) as file:
        file.write(json.dumps(dict(record), ensure_ascii=False, indent=1) + "\n")


def _is_line(line: str) -> bool:
    """Whether this is an answer as one line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "query-id" in record


def _parse_whole(path: str | Path, lines: list[tuple[int, str]]) -> dict[str, Any]:
    text = "\n".join(line for _, line in lines).removeprefix("\ufeff")
    record = parse_json(path, text, lines[0][0] if lines else 1)
    if not isinstance(record, dict):
        raise FormatError(path, None, _WHOLE, describe_json(record))
    return record


def _check_text(path: str | Path, number: int | None, qid: str, text: Any) -> str:
    if not isinstance(text, str):
        raise FormatError(path, number, f"a text as the answer of {qid!r}", repr(text))
    return text
