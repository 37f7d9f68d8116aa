"""Run files: ``qid Q0 docno rank score tag``, one line for each document of each query."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from telerank.errors import FormatError
from telerank.trec.files import Deviations, Record, check_id, numbered_bytes, open_to_write
from telerank.types import Query, Ranking

_COLUMNS = "6 columns: qid Q0 docno rank score tag"
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
        reading = "the lines of a query are not together: the run is sorted, as by trec_eval"
        deviations.accept(piece, reading, "the lines of each query together")
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
                raise ValueError(f"{path}: query {qid} comes twice")
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
            line = {"qid": ranking.query.qid, "ranking": list(ranking)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


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
            deviations.accept(number, "a comment (trec_eval 10.0; earlier versions refuse it)", _COLUMNS)
            continue
        if len(columns) < 6 or b"\0" in line:
            raise FormatError(path, number, _COLUMNS, line.decode(errors="replace"))
        if len(columns) > 6:
            reading = "more than 6 columns: the others are ignored, as by trec_eval"
            deviations.accept(number, reading, _COLUMNS, line.decode(errors="replace"))
        try:
            score = float(columns[4])
        except ValueError:
            score = math.nan
        if not math.isfinite(score) or b"_" in columns[4]:  # Python reads 1_0 as 10; C does not
            got = columns[4].decode(errors="replace")
            raise FormatError(path, number, "a score that is a finite number", got)
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
                what = f"document {docno} once for query {query.qid}, as on line {seen[docno]}"
                raise FormatError(path, number, what)
            seen[docno] = number
    scores = np.array([row[3] for row in rows]) + 0.0  # -0.0 becomes 0.0
    ties_descend = all(docnos[i] > docnos[i + 1] for i in np.flatnonzero(scores[:-1] == scores[1:]))
    if ties_descend and (scores[:-1] >= scores[1:]).all():  # nearly every run is sorted
        return Ranking.presorted(query, tuple(docnos), scores)
    return Ranking.ranked(query, docnos, scores)
