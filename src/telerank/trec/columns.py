"""Qrels files of TREC and BEIR.

Run files: ``qid Q0 docno rank score tag``, one line for each document of each query.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import numpy as np

from telerank.errors import ArgumentError, FormatError
from telerank.trec.files import (
    Conditions,
    Deviations,
    Format,
    Record,
    check_id,
    numbered_bytes,
    open_to_write,
    recognise_line,
)
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Qrel, Qrels, Query, Ranking

_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_QRELS_COLUMNS = "4 columns: qid iteration docno grade"
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
                raise FormatError(path, number, f"{_QRELS_COLUMNS}{other}", line.decode(errors="replace"))
            form = recognise_line(path, number, "qrels", line, QRELS_FORMATS.values())
            if line.split() == _BEIR_HEADER:
                continue
        columns = form.read(line)
        if not columns:
            what = _BEIR if form is _BEIR_FORMAT else f"{_QRELS_COLUMNS}{_name_other(line.split())}"
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
    deviations.accept(number, "a comment (trec_eval 10.0; earlier versions refuse it)", _QRELS_COLUMNS)
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
        raise FormatError(
            where,
            number,
            f"one grade for document {qrel.docno} of query {qrel.qid}, {before} as before{hint}",
            str(qrel.grade),
        )


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
        return "; comments are refused by strict=True"
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
# The formats of qrels by name; a reader returns the qid, group, docno and grade of a line that has them.
QRELS_FORMATS = {form.name: form for form in (_TREC_FORMAT, _BEIR_FORMAT)}


_RUN_COLUMNS = "6 columns: qid Q0 docno rank score tag"
_Row = tuple[int, bytes, bytes, float]


def read_run(path: str | Path, *, strict: bool = True) -> Iterator[Ranking]:
    """Read the rankings of a run file, one query at a time, in the file's order of queries.

    Documents are sorted as by trec_eval: by score, then docno, both descending; the rank column is
    ignored. The text of every query is empty, since a run has none. If not ``strict``, further columns and
    comments (``#``, as in trec_eval 10.0) are ignored, as by trec_eval, and the lines of a query need not be
    contiguous in a file (which is then read into memory), with a FormatWarning.

    Raises FormatError if a line does not have six columns, a score is not a finite number, a document comes
    twice for a query, or the lines of a query are not contiguous.
    """
    deviations = Deviations(path, strict)
    rows = _rows(path, deviations)
    queries: Iterable[tuple[bytes, Iterable[_Row]]] = groupby(rows, key=lambda row: row[1])
    if not strict and Path(path).is_file() and (piece := _find_piece(path)):
        deviations.accept(
            piece,
            "the lines of a query are not together: the run is sorted, as by trec_eval",
            "the lines of each query together",
        )
        collected: dict[bytes, list[_Row]] = {}
        for row in rows:
            collected.setdefault(row[1], []).append(row)
        queries = collected.items()
    begun: dict[bytes, int] = {}
    for qid, of_query in queries:
        lines = list(of_query)
        first = lines[0][0]
        if qid in begun:
            name = qid.decode(errors="replace")
            raise FormatError(path, first, f"the lines of query {name} together, from line {begun[qid]} on")
        begun[qid] = first
        yield _ranking(path, qid, lines)
    deviations.warn()


def write_run(
    path: str | Path, rankings: Iterable[Ranking], tag: str = "telerank", *, record: Record | None = None
) -> None:
    """Write a run file that :func:`read_run` reads back as equal rankings, and trec_eval sorts alike.

    Scores have as many digits as distinguish them from any other float64. A query without documents has no
    line. A ``record`` is written beside the run, as ``PATH.json`` (see :func:`.open_to_write`). Raises
    FormatError if a qid, docno or the tag is empty or contains a blank, ValueError if a query comes twice.
    """
    check_id(tag, "tag", path)
    written: set[str] = set()
    with open_to_write(path, record) as file:
        for ranking in rankings:
            qid = check_id(ranking.query.qid, "qid", path)
            if qid in written:
                raise ArgumentError(f"{path}: query {qid} comes twice")
            written.add(qid)
            file.writelines(
                f"{qid} Q0 {check_id(docno, 'docno', path)} {rank} {score!r} {tag}\n"
                for rank, (docno, score) in enumerate(ranking, 1)
            )


def write_submission(path: str | Path, rankings: Iterable[Ranking]) -> None:
    """Write a run as MS MARCO's leaderboard takes it: ``qid``, ``pid`` and rank, separated by tabs.

    Raises FormatError if a qid or docno is empty or contains a blank.
    """
    with open_to_write(path) as file:
        for ranking in rankings:
            qid = check_id(ranking.query.qid, "qid", path)
            file.writelines(
                f"{qid}\t{check_id(docno, 'docno', path)}\t{rank}\n"
                for rank, docno in enumerate(ranking.docnos, 1)
            )


def write_json_lines(path: str | Path, rankings: Iterable[Ranking], *, record: Record | None = None) -> None:
    """Write a line for each query: ``{"qid": …, "ranking": [[docno, score], …]}``; ``record`` as a run's."""
    with open_to_write(path, record) as file:
        for ranking in rankings:
            file.write(
                json.dumps({"qid": ranking.query.qid, "ranking": list(ranking)}, ensure_ascii=False) + "\n"
            )


def _find_piece(path: str | Path) -> int | None:
    """The first line that continues a query after lines of another; None if there is none."""
    begun: set[bytes] = set()
    current, start = b"", b"\n"  # the qid of the line before, and how other lines of it start
    for number, line in numbered_bytes(path):
        if line.startswith((start, b"#")):
            continue
        qid = line.split(None, 1)[0]
        if qid != current and qid in begun:
            return number
        begun.add(qid)
        current, start = qid, line[: len(qid) + 1]
    return None


def _rows(path: str | Path, deviations: Deviations) -> Iterator[_Row]:
    for number, line in numbered_bytes(path):
        columns = line.split()
        if line.startswith(b"#") and not deviations.strict:
            deviations.accept(number, "a comment (trec_eval 10.0; earlier versions refuse it)", _RUN_COLUMNS)
            continue
        if len(columns) < 6 or b"\0" in line:
            raise FormatError(path, number, _RUN_COLUMNS, line.decode(errors="replace"))
        if len(columns) > 6:
            deviations.accept(
                number,
                "more than 6 columns: the others are ignored, as by trec_eval",
                _RUN_COLUMNS,
                line.decode(errors="replace"),
            )
        try:
            score = float(columns[4])
        except ValueError:
            score = math.nan
        if not math.isfinite(score) or b"_" in columns[4]:  # Python reads 1_0 as 10; C does not
            raise FormatError(
                path, number, "a score that is a finite number", columns[4].decode(errors="replace")
            )
        yield number, columns[0], columns[2], score


def _ranking(path: str | Path, qid: bytes, rows: list[_Row]) -> Ranking:
    try:
        query = Query(qid.decode(), "")
        docnos = [row[2].decode() for row in rows]
    except UnicodeDecodeError as error:
        raise FormatError(path, rows[0][0], "ids in UTF-8 in this line and those of its query") from error
    if len(set(docnos)) < len(docnos):
        seen: dict[str, int] = {}
        for (number, *_), docno in zip(rows, docnos, strict=True):
            if docno in seen:
                raise FormatError(
                    path, number, f"document {docno} once for query {query.qid}, as on line {seen[docno]}"
                )
            seen[docno] = number
    scores = np.array([row[3] for row in rows]) + 0.0  # -0.0 becomes 0.0
    ties_descend = all(docnos[i] > docnos[i + 1] for i in np.flatnonzero(scores[:-1] == scores[1:]))
    if ties_descend and (scores[:-1] >= scores[1:]).all():  # nearly every run is sorted
        return Ranking.presorted(query, tuple(docnos), scores)
    return Ranking.ranked(query, docnos, scores)
