"""Qrels files of TREC and BEIR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from telerank.errors import FormatError
from telerank.trec.files import check_id, numbered_bytes, open_to_write
from telerank.trec.recognition import Conditions, recognise_line
from telerank.types import Qrel, Qrels

_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_TREC = "4 columns: qid iteration docno grade"
_BEIR = "3 columns with tabs between: query-id corpus-id score"
_WHOLE = re.compile(rb"[+-]?[0-9]+")


def read_qrels(path: str | Path) -> Iterator[Qrel]:
    """Read the judgments of a qrels file, in the file's order.

    The file has TREC's four columns separated by any blanks (as MS MARCO's), or BEIR's three separated by
    tabs, with or without its header line. A judgment repeated with the same grade is yielded each time, and
    counts once in :func:`load_qrels`.
    Raises FormatError for other lines, and for a judgment repeated with another grade.
    """
    lines = numbered_bytes(path)
    beir = False
    grades: dict[str, dict[str, int]] = {}
    for position, (number, line) in enumerate(lines):
        if position == 0:
            beir = _recognise(path, number, line) == "beir"
            if line.split() == _BEIR_HEADER:
                continue
        qrel = _qrel(path, number, line, beir=beir)
        _add_grade(grades, qrel, path, number)
        yield qrel


def load_qrels(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Collect judgments as ``qrels[qid][docno] -> grade``; FormatError if a document has two grades."""
    grades: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        _add_grade(grades, qrel, "qrels", None)
    return grades


def _add_grade(grades: dict[str, dict[str, int]], qrel: Qrel, where: str | Path, number: int | None) -> None:
    before = grades.setdefault(qrel.qid, {}).setdefault(qrel.docno, qrel.grade)
    if before != qrel.grade:
        what = f"one grade for document {qrel.docno} of query {qrel.qid}, {before} as before"
        raise FormatError(where, number, what, str(qrel.grade))


def write_qrels(path: str | Path, qrels: Iterable[Qrel] | Qrels) -> None:
    """Write judgments, or a mapping ``qrels[qid][docno] -> grade``, in TREC's four columns."""
    with open_to_write(path) as file:
        for qrel in _flat(qrels):
            qid, docno = check_id(qrel.qid, "qid", path), check_id(qrel.docno, "docno", path)
            file.write(f"{qid} 0 {docno} {qrel.grade}\n")


QRELS_FORMATS = {
    "trec": "qid, iteration, docno, grade, with blanks or tabs between",
    "beir": "query-id, corpus-id, score, with tabs between, with or without this header",
}
"""The formats of qrels by name."""


def _recognise(path: str | Path, number: int, first: bytes) -> str:
    columns = first.split()
    forms = {"trec": _is_trec(columns), "beir": _is_beir(columns, first)}
    return recognise_line(path, number, "qrels", first.decode(errors="replace"), forms)


def _is_trec(columns: list[bytes]) -> Conditions:
    zeros = columns[2:3] == [b"0"] and columns[1] != b"0"
    is_smart = zeros and columns[3:] in ([b"0"], [b"0.000000"])
    if is_smart:
        yield False, "qid, docno, 0, 0 are SMART's qrels: open their folder as a collection"
    if columns[1:2] == [b"Q0"] and len(columns) == 6:
        yield False, "qid, Q0, docno, rank, score, tag are a run"
    yield len(columns) == 4, f"its first line has {_count(columns)}, not 4"
    yield columns and _WHOLE.fullmatch(columns[-1]), ""


def _is_beir(columns: list[bytes], line: bytes) -> Conditions:
    yield len(columns) == 3, f"its first line has {_count(columns)}, not 3"
    yield columns and _WHOLE.fullmatch(columns[-1]), ""
    yield line.count(b"\t") == 2, "its first line does not have two tabs"


def _count(columns: list[bytes]) -> str:
    return "1 column" if len(columns) == 1 else f"{len(columns)} columns"


def _qrel(path: str | Path, number: int, line: bytes, *, beir: bool) -> Qrel:
    columns = line.split(b"\t") if beir else line.split()
    if len(columns) != (3 if beir else 4):
        raise FormatError(path, number, _BEIR if beir else _TREC, line.decode(errors="replace"))
    qid, docno, grade = columns if beir else (columns[0], columns[2], columns[3])
    if not _WHOLE.fullmatch(grade):
        raise FormatError(path, number, "a grade that is a whole number", grade.decode(errors="replace"))
    try:
        names = qid.decode(), docno.decode()
    except UnicodeDecodeError as error:
        raise FormatError(path, number, "ids in UTF-8", repr(line)) from error
    return Qrel(
        check_id(names[0], "qid", path, number), check_id(names[1], "docno", path, number), int(grade)
    )


def _flat(qrels: Iterable[Qrel] | Qrels) -> Iterable[Qrel]:
    if not isinstance(qrels, Mapping):
        return qrels
    return (Qrel(qid, docno, grade) for qid, grades in qrels.items() for docno, grade in grades.items())
