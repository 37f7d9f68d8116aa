"""Qrels files of TREC and BEIR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from telerank.errors import FormatError
from telerank.trec.deviations import Deviations
from telerank.trec.files import check_id, numbered_bytes, open_to_write
from telerank.trec.recognition import Conditions, recognise_line
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Qrel, Qrels

_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_TREC = "4 columns: qid iteration docno grade"
_BEIR = "3 columns with tabs between: query-id corpus-id score"
_GRADE = re.compile(rb"([+-]?)0*([0-9]{1,5})([.][0-9]*)?")
_WHOLE = re.compile(rb"[+-]?[0-9]+")
_DECIMAL = re.compile(rb"[+-]?[0-9]*[.][0-9]+")
_LIMITS = f"a grade that is a whole number from {LEAST_GRADE:,} to {HIGHEST_GRADE:,}"


def read_qrels(path: str | Path, *, strict: bool = True) -> Iterator[Qrel]:
    """Read the judgments of a qrels file, in the file's order.

    The file has TREC's four columns separated by any blanks (as MS MARCO's), or BEIR's three separated by
    tabs, with or without its header line. A judgment repeated with the same grade is yielded each time, and
    counts once in :func:`load_qrels`. If not ``strict``, comments (``#``, as in trec_eval 10.0) are skipped
    and grades with decimals are cut to whole numbers, as trec_eval reads them, with a FormatWarning.

    Raises FormatError for other lines, a grade beyond the limits, and a judgment repeated with another grade.
    """
    deviations = Deviations(path, strict)
    form = ""
    groups: set[bytes] = set()
    grades: dict[str, dict[str, int]] = {}
    for number, line in numbered_bytes(path):
        columns = line.split(b"\t") if form == "beir" else _split(line, number, deviations)
        if not columns:
            continue
        if not form:
            form = _recognise(path, number, line, columns)
            if line.split() == _BEIR_HEADER:
                continue
            columns = line.split(b"\t") if form == "beir" else columns
        qrel = _qrel(number, line, columns, form == "beir", deviations)
        if len(groups) < 2 and form != "beir":
            groups.add(columns[1])
        _add_grade(grades, qrel, path, number, " (judgment groups are not read)" * (len(groups) > 1))
        yield qrel
    deviations.warn()


def load_qrels(qrels: Iterable[Qrel]) -> dict[str, dict[str, int]]:
    """Collect judgments as ``qrels[qid][docno] -> grade``.

    Raises FormatError if a document has two grades, or a grade is beyond the limits.
    """
    grades: dict[str, dict[str, int]] = {}
    for qrel in qrels:
        _add_grade(grades, qrel, "qrels", None)
    return grades


def _add_grade(
    grades: dict[str, dict[str, int]], qrel: Qrel, where: str | Path, number: int | None, hint: str = ""
) -> None:
    if not LEAST_GRADE <= qrel.grade <= HIGHEST_GRADE:
        raise FormatError(where, number, f"{_LIMITS} for document {qrel.docno} of query {qrel.qid}")
    before = grades.setdefault(qrel.qid, {}).setdefault(qrel.docno, qrel.grade)
    if before != qrel.grade:
        what = f"one grade for document {qrel.docno} of query {qrel.qid}, {before} as before{hint}"
        raise FormatError(where, number, what, str(qrel.grade))


def write_qrels(path: str | Path, qrels: Iterable[Qrel] | Qrels) -> None:
    """Write judgments, or a mapping ``qrels[qid][docno] -> grade``, in TREC's four columns."""
    with open_to_write(path) as file:
        for qrel in _flat(qrels):
            qid, docno = check_id(qrel.qid, "qid", path), check_id(qrel.docno, "docno", path)
            file.write(f"{qid} 0 {docno} {qrel.grade}\n")


def _split(line: bytes, number: int, deviations: Deviations) -> list[bytes]:
    """The columns of a line of TREC's qrels; none if it is a comment."""
    columns = line.split()
    comment = [i for i, column in enumerate(columns) if column.startswith(b"#") and i in (0, 4)]
    if not comment or deviations.strict:
        return columns
    deviations.accept(number, "a comment (trec_eval 10.0; earlier versions refuse it)", _TREC)
    return columns[: comment[0]]


QRELS_FORMATS = {
    "trec": "qid, iteration, docno, grade, with blanks or tabs between",
    "beir": "query-id, corpus-id, score, with tabs between, with or without this header",
}
"""The formats of qrels by name."""


def _recognise(path: str | Path, number: int, line: bytes, columns: list[bytes]) -> str:
    got = line.decode(errors="replace")
    if other := _name(columns):
        raise FormatError(path, number, f"{_TREC}{other}", got)
    return recognise_line(
        path, number, "qrels", got, {"trec": _is_trec(columns), "beir": _is_beir(columns, line)}
    )


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


def _qrel(number: int, line: bytes, columns: list[bytes], beir: bool, deviations: Deviations) -> Qrel:
    path = deviations.path
    if len(columns) != (3 if beir else 4) or (not beir and _is_zscore(columns)):
        raise FormatError(
            path, number, _BEIR if beir else f"{_TREC}{_name(columns)}", line.decode(errors="replace")
        )
    qid, docno, grade = columns if beir else (columns[0], columns[2], columns[3])
    try:
        names = qid.decode(), docno.decode()
    except UnicodeDecodeError as error:
        raise FormatError(path, number, "ids in UTF-8", repr(line)) from error
    return Qrel(
        check_id(names[0], "qid", path, number),
        check_id(names[1], "docno", path, number),
        _grade(number, grade, deviations),
    )


def _grade(number: int, text: bytes, deviations: Deviations) -> int:
    match, got = _GRADE.fullmatch(text), text.decode(errors="replace")
    grade = int(match[1] + match[2]) if match else HIGHEST_GRADE + 1
    if not LEAST_GRADE <= grade <= HIGHEST_GRADE:
        raise FormatError(deviations.path, number, _LIMITS, got)
    if match and match[3]:
        deviations.accept(number, "a grade with decimals is cut, as trec_eval reads it", _LIMITS, got)
    return grade


def _is_zscore(columns: list[bytes]) -> bool:
    """Whether the columns are a qid, a measure, its mean and its standard deviation."""
    return len(columns) == 4 and all(map(_DECIMAL.fullmatch, columns[2:]))


def _name(columns: list[bytes]) -> str:
    """What a line has that is not qrels: another format of trec_eval, or a comment."""
    if columns[0].startswith(b"#"):
        return "; comments are refused by --strict"
    if _is_zscore(columns):
        return "; z-scores (qid measure mean deviation) are not read"
    if len(columns) == 5 and all(map(_WHOLE.fullmatch, (columns[1], columns[2], columns[4]))):
        return "; preferences (qid group subgroup docno rank) are not read"
    return ""


def _flat(qrels: Iterable[Qrel] | Qrels) -> Iterable[Qrel]:
    if not isinstance(qrels, Mapping):
        return qrels
    return (Qrel(qid, docno, grade) for qid, grades in qrels.items() for docno, grade in grades.items())
