"""Qrels files of TREC and BEIR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from telerank.errors import FormatError
from telerank.trec.files import Deviations, check_id, numbered_bytes, open_to_write
from telerank.trec.recognition import Conditions, Format, recognise_line
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
    form: Format[bytes, list[bytes]] | None = None
    groups: set[bytes] = set()
    grades: dict[str, dict[str, int]] = {}
    for number, whole in numbered_bytes(path):
        line = whole
        if b"#" in line and form is not _BEIR_FORMAT and not strict:
            line = _without_comment(line, number, deviations)
            if not line:
                continue
        if form is None:
            if other := _name_other(line.split()):
                raise FormatError(path, number, f"{_TREC}{other}", line.decode(errors="replace"))
            form = recognise_line(path, number, "qrels", line, QRELS_FORMATS.values())
            if line.split() == _BEIR_HEADER:
                continue
        columns = form.read(line)
        if not columns:
            what = _BEIR if form is _BEIR_FORMAT else f"{_TREC}{_name_other(line.split())}"
            raise FormatError(path, number, what, whole.decode(errors="replace"))
        qid, group, docno, grade = columns
        try:
            names = qid.decode(), docno.decode()
        except UnicodeDecodeError as error:
            raise FormatError(path, number, "ids in UTF-8", repr(whole)) from error
        qrel = Qrel(
            check_id(names[0], "qid", path, number),
            check_id(names[1], "docno", path, number),
            _grade(number, grade, deviations),
        )
        if len(groups) < 2:
            groups.add(group)
        _add_grade(grades, qrel, path, number, " (judgment groups are not read)" * (len(groups) > 1))
        yield qrel
    deviations.warn()


def _without_comment(line: bytes, number: int, deviations: Deviations) -> bytes:
    """A line of TREC's qrels without the comment that stands in place of its first or its fifth column."""
    pieces = line.split(None, 4)
    comment = next((piece for piece in (pieces[0], *pieces[4:]) if piece.startswith(b"#")), None)
    if comment is None:
        return line
    deviations.accept(number, "a comment (trec_eval 10.0; earlier versions refuse it)", _TREC)
    return b"" if comment is pieces[0] else line.removesuffix(comment)


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
    if isinstance(qrels, Mapping):
        qrels = (Qrel(qid, docno, grade) for qid, grades in qrels.items() for docno, grade in grades.items())
    with open_to_write(path) as file:
        for qrel in qrels:
            qid, docno = check_id(qrel.qid, "qid", path), check_id(qrel.docno, "docno", path)
            file.write(f"{qid} 0 {docno} {qrel.grade}\n")


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


def _name_other(columns: list[bytes]) -> str:
    """What a line has that is not qrels: another format of trec_eval, or a comment."""
    if columns[0].startswith(b"#"):
        return "; comments are refused by --strict"
    if _is_zscore(columns):
        return "; z-scores (qid measure mean deviation) are not read"
    if len(columns) == 5 and all(map(_WHOLE.fullmatch, (columns[1], columns[2], columns[4]))):
        return "; preferences (qid group subgroup docno rank) are not read"
    return ""


def _trec_conditions(line: bytes) -> Conditions:
    columns = line.split()
    zeros = columns[2:3] == [b"0"] and columns[1] != b"0"
    if zeros and columns[3:] in ([b"0"], [b"0.000000"]):
        yield False, "qid, docno, 0, 0 are SMART's qrels: open their folder as a collection"
    if columns[1:2] == [b"Q0"] and len(columns) == 6:
        yield False, "qid, Q0, docno, rank, score, tag are a run"
    yield len(columns) == 4, f"its first line has {_count(columns)}, not 4"
    yield _WHOLE.fullmatch(columns[-1]), ""


def _read_trec(line: bytes) -> list[bytes]:
    columns = line.split()
    return columns if len(columns) == 4 and not _is_zscore(columns) else []


def _beir_conditions(line: bytes) -> Conditions:
    columns = line.split()
    yield len(columns) == 3, f"its first line has {_count(columns)}, not 3"
    yield _WHOLE.fullmatch(columns[-1]), ""
    yield line.count(b"\t") == 2, "its first line does not have two tabs"


def _read_beir(line: bytes) -> list[bytes]:
    columns = line.split(b"\t")
    return [columns[0], b"", *columns[1:]] if len(columns) == 3 else []


def _count(columns: list[bytes]) -> str:
    return "1 column" if len(columns) == 1 else f"{len(columns)} columns"


_TREC_FORMAT = Format(
    "trec", _trec_conditions, _read_trec, "qid, iteration, docno, grade, with blanks or tabs between"
)
_BEIR_FORMAT = Format(
    "beir",
    _beir_conditions,
    _read_beir,
    "query-id, corpus-id, score, with tabs between, with or without this header",
)
QRELS_FORMATS = {form.name: form for form in (_TREC_FORMAT, _BEIR_FORMAT)}
"""The formats of qrels by name; a reader returns the qid, group, docno and grade of a line that has them."""
