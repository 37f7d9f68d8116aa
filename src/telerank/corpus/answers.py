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

Judgments as a service collects them: a line of JSON each, with the text of the query.

================  ====================================================================
``qid``           the same for the same words
``query``         the text of the query
``docno``         the document
``grade``         a whole number; above 0: relevant
``time``          when it was judged, as ``2026-11-22T09:30:00Z``
``rank``          of a click: where the document stood; a click is a grade of 1
``index``         the name of the index in the service, which is the split; may be absent
================  ====================================================================

A collection is such a file, or a folder of such files. Of several judgments of a query and a document the
last counts. There are no documents. The source is the service itself (``telerank serve --judgments``); a file
has the licence of whoever collected it.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from telerank.errors import ArgumentError, CollectionError, FormatError, FormatWarning
from telerank.trec import (
    Conditions,
    Format,
    check_id,
    decode,
    describe_json,
    numbered_bytes,
    numbered_lines,
    open_to_write,
    parse_json,
    parse_object,
)
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Answer, Doc, Qrel, Query

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
    keys = {"query-id": "qid", "corpus-id": "docno", "text": "text", "start": "start"}
    write_records(path, ({key: getattr(answer, name) for key, name in keys.items()} for answer in answers))


def write_records(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON lines."""
    with open_to_write(path) as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


_WHOLE = "an object from question ids to the texts of their answers"


def is_predictions_file(path: str | Path) -> bool:
    """Whether the file begins as JSON does that holds predictions, and no run: with a brace."""
    try:
        lines = numbered_lines(path) if str(path) != "-" and Path(path).is_file() else iter(())
        return next((line.lstrip("\ufeff \t")[:1] == "{" for _, line in lines), False)
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


def write_predictions(path: str | Path, predictions: Mapping[str, str | float]) -> None:
    """Write texts, or values of no-answer, by question id as SQuAD's JSON."""
    with open_to_write(path) as file:
        file.write(json.dumps(dict(predictions), ensure_ascii=False, indent=1) + "\n")


def _is_line(line: str) -> bool:
    """Whether this is an answer as one line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "query-id" in record


def _parse_whole(path: str | Path, lines: list[tuple[int, str]]) -> dict[str, Any]:
    record = parse_json(
        path, "\n".join(line for _, line in lines).removeprefix("\ufeff"), lines[0][0] if lines else 1
    )
    if not isinstance(record, dict):
        raise FormatError(path, None, _WHOLE, describe_json(record))
    return record


def _check_text(path: str | Path, number: int | None, qid: str, text: Any) -> str:
    if not isinstance(text, str):
        raise FormatError(path, number, f"a text as the answer of {qid!r}", repr(text))
    return text


_JUDGMENT_KEYS = ("qid", "query", "docno", "grade")


@dataclass(frozen=True, slots=True)
class Judgment:
    """A grade of a document for a query, and when it was given (ISO 8601).

    Of a click ``rank`` is where the document stood; 0: somebody judged it.

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
    rank: int = 0

    def __post_init__(self) -> None:
        if not LEAST_GRADE <= self.grade <= HIGHEST_GRADE:
            raise ArgumentError(f"a grade is from {LEAST_GRADE:,} to {HIGHEST_GRADE:,}, got {self.grade}")
        f"{self.query}{self.docno}{self.index}".encode()
        for name in ("qid", "docno"):
            try:
                check_id(getattr(self, name), name, "judgment")
            except FormatError as error:
                raise ArgumentError(str(error)) from error

    def line(self) -> str:
        """The line of a file, with its end."""
        record = asdict(self) if self.rank else {**asdict(self), "rank": None}
        kept = {name: value for name, value in record.items() if value is not None}
        return json.dumps(kept, ensure_ascii=False) + "\n"


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
    kinds = {**dict.fromkeys((*_JUDGMENT_KEYS, "time", "index"), str), "grade": int, "rank": int}
    values = {name: record[name] for name in kinds if name in record}
    wrong = [name for name in _JUDGMENT_KEYS if name not in values]
    wrong += [name for name, value in values.items() if type(value) is not kinds[name]]
    if wrong:
        raise FormatError(
            path, number, f"a judgment with {', '.join(_JUDGMENT_KEYS)}, its grade a whole number", line
        )
    try:
        return Judgment(**values)
    except ValueError as error:
        raise FormatError(path, number, str(error), line) from error


def _judgment_conditions(path: Path) -> Conditions:
    files = list_few(path)
    keys = [_read_keys(file) for file in files if plain_name(file).endswith((".jsonl", ".json"))]
    yield any({"query", "docno", "grade"} <= own for own in keys), ""
    yield keys and len(keys) == len(files), "its name does not end in .jsonl"
    yield (
        keys and all({*_JUDGMENT_KEYS} <= own for own in keys),
        f"its first line has not {', '.join(_JUDGMENT_KEYS)}",
    )


def _read_keys(file: Path) -> set[str]:
    """The keys of the first lines' first judgment, since a line may be damaged; else of the first object."""
    text = read_beginning(file, 1 << 16)
    return next(
        (keys for keys in map(first_keys, text.split("\n")) if {*_JUDGMENT_KEYS} <= keys), first_keys(text)
    )


def _open_judgments(path: Path, encoding: str) -> Collection:
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
        notes=partial(_count_clicks, files, encoding),
    )


def _count_clicks(files: Sequence[Path], encoding: str) -> dict[str, int]:
    """How many of the judgments are clicks, and on the first rank; nothing if none is."""
    ranks = [judgment.rank for judgment in read_all(read_judgments, files, encoding) if judgment.rank]
    return {CLICKS: len(ranks), FIRST_CLICKS: ranks.count(1)} if ranks else {}


CLICKS, FIRST_CLICKS = "clicks", "clicks on the first rank"
JUDGMENTS = Format(
    "judgments",
    _judgment_conditions,
    _open_judgments,
    "judgments of a service, one a line: qid, query, docno, grade",
)
