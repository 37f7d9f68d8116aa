"""Cranfield, CISI, MED, ADI, CACM and others as SMART files, with queries and judgments in their own layouts.

A document has the number after ``.I`` as its docno, ``.T`` as its title and ``.W`` as its text; the text of
a query is ``.W`` (or ``.T`` without it). Leading zeros of numbers have no meaning. Authors, keywords and
the other fields are left out; notes count the documents that have any.

A folder has one file of documents, one of queries (``qry``, ``query`` or ``que`` in its name) and one of
judgments (``rel`` in its name), all recognised by their content; a file alone is one of the first two.
Of several files of a kind the format names one: ``smart(documents=MED.ALL, judgments=MED.REL)``.
Judgments are

==========================  =============================================================
``1 12 0 0``                query, document, two zeros (CACM, CISI, ADI): relevant
``1 0 12 1``                query, zero, document, grade (MED)
``1 12 1``                  query, document, grade (MED, Cranfield)
==========================  =============================================================

Cranfield's grades run from 1 (a complete answer) to 4, and -1 is not relevant: if a file of three columns
has grades other than 1, these become 4 to 1, and 0. Its queries have the numbers 1, 2, 4, … of a longer
list, while its judgments count them by position: if a judged number is not one of a query, positions are
the qids of queries, too.

In one copy of CACM the number of a document is wrong. Where documents before and after it are numbered
without a gap, such a number is replaced by the document's position, and a note counts it; others that
repeat are refused.

Source: Cranfield (Cleverdon 1967), CISI and CACM (Fox 1983), MED and ADI (Salton 1971),
ir.dcs.gla.ac.uk/resources/ test_collections. Licence: none stated.

LISA: abstracts of library science in several files, queries, and judgments.

======================  ===============================================================================
``LISA0.001``, …        ``Document 1``, the title to the first blank line, the text, a line of asterisks
``LISA.QUE``            a number on a line of its own, the text, which ends in ``#``
``LISA.REL``            ``Query 1``, ``3 Relevant Refs:``, docnos to ``-1``
``LISARJ.NUM``          the same as numbers: query, number of docnos, docnos, on one line or several
======================  ===============================================================================

Files are recognised by their content, so they may have other names (``lisa.all.txt``, ``lisa.queries.txt``,
``lisa.relevance.txt``). Numbers are read only without lists. Of several files of queries or judgments the
format names one: ``lisa(judgments=LISARJ.NUM)``. Every judged document is relevant.

Source: Peter Willett, University of Sheffield 1982 (ir.dcs.gla.ac.uk/resources/test_collections/lisa).
Licence: none stated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    bind_files,
    choose_file,
    has_files,
    list_few,
    plain_name,
    read_all,
    read_first_line,
    read_first_lines,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import NUMBER, Format, SmartRecord, numbered_lines, read_records, starts_smart
from telerank.types import Doc, Qrel, Query

_QUERIES = re.compile(r"qry|quer(?:y|ies)|(?<![a-z])que(?![a-z])", re.IGNORECASE)
_JUDGMENTS = re.compile(r"rel", re.IGNORECASE)
_GRADE = re.compile(r"-?[0-9]{1,4}")
_ZERO = re.compile(r"0(?:\.0+)?")
_COLUMNS = "query and document, then two zeros or a grade; or query, zero, document, grade"
_LEFT_OUT = "ABKCNX"
_BEST = 4  # of Cranfield's grades, where it is written as 1


class _SmartFiles(NamedTuple):
    docs: Path | None
    queries: Path | None
    judgments: Path | None
    encoding: str

    def read_docs(self) -> Iterator[Doc]:
        seen = set[str]()
        for record, docno, _ in self._records():
            if docno is None or docno in seen:
                raise FormatError(
                    self.docs or "",
                    record.line,
                    "a number after .I that no other document has",
                    record.number,
                )
            seen.add(docno)
            yield Doc(docno, record.text("W"), " ".join(record.text("T").split()))

    def count_notes(self) -> dict[str, int]:
        counts = dict.fromkeys(("documents_renumbered", "documents_with_fields_left_out"), 0)
        for record, _, is_position in self._records():
            counts["documents_renumbered"] += is_position
            counts["documents_with_fields_left_out"] += any(map(record.text, _LEFT_OUT))
        return counts

    def _records(self) -> Iterator[tuple[SmartRecord, str | None, bool]]:
        """Each document with its docno, and whether that is its position, since its number was wrong."""
        before, records = "0", _read_smart(self.docs, self.encoding)
        for position, (record, following) in enumerate(pairwise(chain(records, [None])), 1):
            if record is None:
                return
            gap = before == str(position - 1) and following and following.id == str(position + 1)
            wrong = bool(gap) and record.id != str(position)
            before = str(position) if wrong else record.id or ""
            yield record, str(position) if wrong else record.id, wrong

    def read_queries(self) -> Iterator[Query]:
        texts: dict[str, str] = {}
        for record in _read_smart(self.queries, self.encoding):
            text = " ".join((record.text("W") or record.text("T")).split())
            if record.id is None or record.id in texts or not text:
                what = "a number after .I that no other query has, and a text after .W"
                raise FormatError(self.queries or "", record.line, what, record.number)
            texts[record.id] = text
        judged = {qid for _, qid, _, _ in self._read_judgments()}
        by_position = bool(texts) and not judged <= texts.keys()
        beyond = min((qid for qid in judged if int(qid) > len(texts)), key=int, default=None)
        if by_position and beyond:
            what = f"numbers or positions of the {len(texts)} queries"
            raise FormatError(self.judgments or "", None, what, beyond)
        for position, (qid, text) in enumerate(texts.items(), 1):
            yield Query(str(position) if by_position else qid, text)

    def read_qrels(self) -> Iterator[Qrel]:
        judgments = list(self._read_judgments())
        reverse = any(grade != 1 for _, _, _, grade in judgments)
        for number, qid, docno, grade in judgments:
            if reverse and not -1 <= grade <= _BEST:
                raise FormatError(self.judgments or "", number, f"a grade from -1 to {_BEST}", str(grade))
            value = _BEST + 1 - grade if grade > 0 else 0
            yield Qrel(qid, docno, value if reverse else grade)

    def _read_judgments(self) -> Iterator[tuple[int, str, str, int]]:
        """Line, query, document and grade as the file has it."""
        for number, line in numbered_lines(self.judgments, self.encoding) if self.judgments else ():
            match line.split():
                case [qid, docno, zero, tail] if _ZERO.fullmatch(zero) and _ZERO.fullmatch(tail):
                    grade = "1"
                case [qid, "0", docno, grade] | [qid, docno, grade]:
                    pass
                case _:
                    raise FormatError(self.judgments or "", number, _COLUMNS, line)
            ids = NUMBER.fullmatch(qid), NUMBER.fullmatch(docno)
            if not ids[0] or not ids[1] or not _GRADE.fullmatch(grade):
                raise FormatError(self.judgments or "", number, _COLUMNS, line)
            yield number, ids[0][1], ids[1][1], int(grade)


def _read_smart(path: Path | None, encoding: str) -> Iterator[SmartRecord]:
    return read_records(path, numbered_lines(path, encoding)) if path else iter(())


def _smart_files(path: Path) -> list[Path]:
    return [file for file in list_few(path) if starts_smart(read_first_lines(file))]


def _has_judgments(file: Path) -> bool:
    columns = read_first_line(file).split()
    return len(columns) in {3, 4} and NUMBER.fullmatch(columns[0]) is not None


def _open_smart(
    path: Path, encoding: str, documents: str = "", queries: str = "", judgments: str = ""
) -> Collection:
    smart = _smart_files(path)
    others = [file for file in list_few(path) if file not in smart] if path.is_dir() else []
    judged = [file for file in others if _has_judgments(file)]
    of_queries = [file for file in smart if _QUERIES.search(file.name)]
    choose = partial(choose_file, path, SMART.name)
    topics = choose("queries", smart if queries else of_queries, queries)
    rest = [file for file in smart if file != topics and (documents or file not in of_queries)]
    try:
        docs = choose("documents", rest, documents)
    except CollectionError as error:
        if not documents:
            error.add_note("a file of queries has qry or query in its name")
        raise
    named = [file for file in judged if judgments or _JUDGMENTS.search(file.name)]
    files = _SmartFiles(docs, topics, choose("judgments", named, judgments), encoding)
    if docs is None and topics is None:
        raise CollectionError(f"{path}: no file that begins with .I and a number")
    return Collection(
        path.name,
        SMART.name,
        files.read_docs,
        {WHOLE: files.read_queries} if topics else {},
        {WHOLE: files.read_qrels} if files.judgments else {},
        size=None if docs else 0,
        source="ir.dcs.gla.ac.uk/resources/test_collections",
        notes=files.count_notes,
        unread=unread_files(path, files[:3]),
    )


SMART = Format(
    "smart",
    has_files(_smart_files, "no file in it begins with .I and a number", "it does not begin with .I"),
    _open_smart,
    "SMART files: .I, .T, .W, … (Cranfield, CISI, MED, ADI, CACM)",
    kinds=("documents", "queries", "judgments"),
)


_BEGINS = re.compile(r"Document\s+0*([0-9]{1,18})\s*")
_ENDS = re.compile(r"\*{8,}+\s*")
_LISA_QUERY = re.compile(r"Query\s+0*([0-9]{1,18})\s*")
_REFS = re.compile(r"\s*([0-9]{1,9})\s+Relevant\s+Refs:\s*")
_LISA_NUMBER = re.compile(r"0*([0-9]{1,18})")
_COUNT = re.compile(r"[0-9]{1,9}")
_LISA_NAMES = {"LISA.QUE": "queries", "LISA.REL": "lists", "LISARJ.NUM": "numbers"}


def read_lisa_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of one file."""
    docno, begun, lines = "", 0, list[str]()
    for number, raw in numbered_lines(path, encoding, blank=True):
        line = raw.strip()
        if _ENDS.fullmatch(line) and docno:
            blank = lines.index("") if "" in lines else len(lines)
            yield Doc(docno, "\n".join(lines[blank:]).strip(), " ".join(lines[:blank]))
            docno = ""
        elif docno:
            lines.append(line)
        elif match := _BEGINS.fullmatch(line):
            docno, begun, lines = match[1], number, []
        elif line.strip("\x1a"):
            raise FormatError(path, number, "Document and a number", line)
    if docno:
        raise FormatError(path, begun, "a line of asterisks at the end of the document that begins here")


def read_lisa_queries(path: Path, encoding: str = "utf-8") -> Iterator[Query]:
    """Read the queries of ``LISA.QUE``."""
    qid, words = "", list[str]()
    for number, line in numbered_lines(path, encoding):
        match = None if qid else _LISA_NUMBER.fullmatch(line.strip())
        if not qid and not match:
            if line.strip("\x1a"):
                raise FormatError(path, number, "the number of a query", line)
        elif match:
            qid, words = match[1], []
        else:
            words += line.rstrip().removesuffix("#").split()
            if line.rstrip().endswith("#"):
                yield Query(qid, " ".join(words))
                qid = ""
    if qid:
        raise FormatError(path, None, f"# at the end of query {qid}")


def read_lisa_lists(path: Path, encoding: str = "utf-8") -> Iterator[Qrel]:
    """Read ``LISA.REL``."""
    qid, count, docnos = "", -1, list[str]()
    for number, line in numbered_lines(path, encoding):
        query, refs = _LISA_QUERY.fullmatch(line.strip()), _REFS.fullmatch(line)
        if query and not qid:
            qid, count, docnos = query[1], -1, []
        elif refs and qid and count < 0:
            count = int(refs[1])
        elif qid and count >= 0:
            docnos += line.split()
            if docnos[-1] == "-1":
                yield from _judged(path, number, qid, count, docnos[:-1])
                qid = ""
        elif line.strip("\x1a"):
            raise FormatError(path, number, "Query, Relevant Refs, and docnos to -1", line)
    if qid:
        raise FormatError(path, None, f"-1 after the docnos of query {qid}")


def read_lisa_numbers(path: Path, encoding: str = "utf-8") -> Iterator[Qrel]:
    """Read ``LISARJ.NUM``."""
    numbers: list[str] = []
    for number, line in numbered_lines(path, encoding):
        numbers += line.strip("\x1a").split()
        if not all(map(_COUNT.fullmatch, numbers[:2])):
            raise FormatError(path, number, "query, number of documents, docnos", line)
        if len(numbers) >= 2 and len(numbers) - 2 >= int(numbers[1]):
            yield from _judged(path, number, numbers[0].lstrip("0"), int(numbers[1]), numbers[2:])
            numbers = []
    if numbers:
        count = numbers[1] if len(numbers) > 1 else "number of"
        raise FormatError(path, None, f"{count} docnos of query {numbers[0]}", f"{len(numbers[2:])}")


def _judged(path: Path, number: int, qid: str, count: int, docnos: list[str]) -> Iterator[Qrel]:
    names = [match and match[1] for match in map(_LISA_NUMBER.fullmatch, docnos)]
    if len(names) != count or not all(names):
        raise FormatError(path, number, f"{count} docnos of query {qid}", " ".join(docnos))
    return (Qrel(qid, name, 1) for name in names if name)


def _doc_files(path: Path) -> list[Path]:
    return [file for file in list_few(path) if _BEGINS.fullmatch(read_first_line(file))]


def _open_lisa(path: Path, encoding: str, queries: str = "", judgments: str = "") -> Collection:
    docs = _doc_files(path)
    if not docs:
        raise CollectionError(f"{path}: no file that begins with Document and a number")
    kinds = {file: _kind(file) for file in list_few(path) if file not in docs}
    topics, lists, numbers = (
        [file for file, own in kinds.items() if own == kind] for kind in ("queries", "lists", "numbers")
    )
    of_queries = choose_file(path, LISA.name, "queries", topics, queries)
    judged = [*lists, *numbers] if judgments else lists or numbers
    of_judgments = choose_file(path, LISA.name, "judgments", judged, judgments)
    read_judgments = read_lisa_lists if of_judgments in lists else read_lisa_numbers
    return Collection(
        path.name,
        LISA.name,
        partial(read_all, read_lisa_docs, docs, encoding),
        bind_files(read_lisa_queries, {WHOLE: of_queries}, encoding=encoding),
        bind_files(read_judgments, {WHOLE: of_judgments}, encoding=encoding),
        source="ir.dcs.gla.ac.uk/resources/test_collections/lisa",
        unread=unread_files(path, [*docs, of_queries, of_judgments]),
    )


def _kind(file: Path) -> str:
    """``queries``, or the form of the judgments, by the beginning of a file; of another one by its name."""
    lines = [line.strip() for line in read_first_lines(file)]
    if lines and _LISA_QUERY.fullmatch(lines[0]):
        return "lists"
    if lines and _LISA_NUMBER.fullmatch(lines[0]) and any(line.endswith("#") for line in lines):
        return "queries"
    numbers = " ".join(lines).split()
    if numbers and all(map(_COUNT.fullmatch, numbers)) and _has_counts([*map(int, numbers[:-1])]):
        return "numbers"  # the last number may be cut
    return _LISA_NAMES.get(plain_name(file).upper(), "")


def _has_counts(numbers: list[int]) -> bool:
    """Whether numbers are a query, a count, as many docnos, a higher query, …; qrels of TREC are not."""
    at, before = 0, 0
    while at < len(numbers):
        query, count = (*numbers[at : at + 2], 1)[:2]
        if query <= before or not count:
            return False
        before, at = query, at + 2 + count
    return True


LISA = Format(
    "lisa",
    has_files(
        _doc_files, "no file in it begins with Document 1", "it does not begin with Document 1", "lisa"
    ),
    _open_lisa,
    "LISA: files of Document 1, …; queries that end in #; lists of judgments",
    kinds=("queries", "judgments"),
)
