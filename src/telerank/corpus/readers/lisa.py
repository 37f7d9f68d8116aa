"""LISA: abstracts of library science in several files, queries, and judgments.

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
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.reading import (
    WHOLE,
    bind,
    choose_file,
    list_few,
    plain_name,
    read_all,
    read_first_lines,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import Conditions, Format, numbered_lines
from telerank.types import Doc, Qrel, Query

_BEGINS = re.compile(r"Document\s+0*([0-9]{1,18})\s*")
_ENDS = re.compile(r"\*{8,}+\s*")
_QUERY = re.compile(r"Query\s+0*([0-9]{1,18})\s*")
_REFS = re.compile(r"\s*([0-9]{1,9})\s+Relevant\s+Refs:\s*")
_NUMBER = re.compile(r"0*([0-9]{1,18})")
_COUNT = re.compile(r"[0-9]{1,9}")
_NAMES = {"LISA.QUE": "queries", "LISA.REL": "lists", "LISARJ.NUM": "numbers"}


def read_docs(path: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of one file."""
    docno, begun, lines = "", 0, list[str]()
    for number, raw in numbered_lines(path, encoding, blank=True):
        line = raw.strip()
        if _ENDS.fullmatch(line) and docno:
            yield _doc(docno, lines)
            docno = ""
        elif docno:
            lines.append(line)
        elif match := _BEGINS.fullmatch(line):
            docno, begun, lines = match[1], number, []
        elif line.strip("\x1a"):
            raise FormatError(path, number, "Document and a number", line)
    if docno:
        raise FormatError(path, begun, "a line of asterisks at the end of the document that begins here")


def _doc(docno: str, lines: list[str]) -> Doc:
    blank = lines.index("") if "" in lines else len(lines)
    return Doc(docno, "\n".join(lines[blank:]).strip(), " ".join(lines[:blank]))


def read_queries(path: Path, encoding: str = "utf-8") -> Iterator[Query]:
    """Read the queries of ``LISA.QUE``."""
    qid, words = "", list[str]()
    for number, line in numbered_lines(path, encoding):
        match = None if qid else _NUMBER.fullmatch(line.strip())
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


def read_judgments(path: Path, encoding: str = "utf-8") -> Iterator[Qrel]:
    """Read ``LISA.REL``."""
    qid, count, docnos = "", -1, list[str]()
    for number, line in numbered_lines(path, encoding):
        query, refs = _QUERY.fullmatch(line.strip()), _REFS.fullmatch(line)
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


def read_columns(path: Path, encoding: str = "utf-8") -> Iterator[Qrel]:
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
    names = [match and match[1] for match in map(_NUMBER.fullmatch, docnos)]
    if len(names) != count or not all(names):
        raise FormatError(path, number, f"{count} docnos of query {qid}", " ".join(docnos))
    return (Qrel(qid, name, 1) for name in names if name)


def _doc_files(path: Path) -> list[Path]:
    firsts = ((file, read_first_lines(file)[:1]) for file in list_few(path))
    return [file for file, first in firsts if any(_BEGINS.fullmatch(line) for line in first)]


def _conditions(path: Path) -> Conditions:
    yield any(file.name.upper().startswith("LISA") for file in list_few(path)), ""
    yield (
        _doc_files(path),
        f"{'no file in it begins' if path.is_dir() else 'it does not begin'} with Document 1",
    )


def _open(path: Path, encoding: str, queries: str = "", judgments: str = "") -> Collection:
    docs = _doc_files(path)
    if not docs:
        raise CollectionError(f"{path}: no file that begins with Document and a number")
    forms = {file: _kind(file) for file in list_few(path) if file not in docs}
    topics, lists, numbers = (
        [file for file, form in forms.items() if form == kind] for kind in ("queries", "lists", "numbers")
    )
    of_queries = choose_file(path, LISA.name, "queries", topics, queries)
    judged = [*lists, *numbers] if judgments else lists or numbers
    of_judgments = choose_file(path, LISA.name, "judgments", judged, judgments)
    return Collection(
        path.name,
        LISA.name,
        partial(read_all, read_docs, docs, encoding),
        bind(read_queries, {WHOLE: of_queries}, encoding=encoding),
        bind(
            read_judgments if of_judgments in lists else read_columns,
            {WHOLE: of_judgments},
            encoding=encoding,
        ),
        source="ir.dcs.gla.ac.uk/resources/test_collections/lisa",
        unread=unread_files(path, [*docs, of_queries, of_judgments]),
    )


def _kind(file: Path) -> str:
    """``queries``, or the form of the judgments, by the beginning of a file; of another one by its name."""
    lines = [line.strip() for line in read_first_lines(file)]
    if lines and _QUERY.fullmatch(lines[0]):
        return "lists"
    if lines and _NUMBER.fullmatch(lines[0]) and any(line.endswith("#") for line in lines):
        return "queries"
    numbers = " ".join(lines).split()
    if numbers and all(map(_COUNT.fullmatch, numbers)) and _has_counts([*map(int, numbers[:-1])]):
        return "numbers"  # the last number may be cut
    return _NAMES.get(plain_name(file).upper(), "")


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
    _conditions,
    _open,
    "LISA: files of Document 1, …; queries that end in #; lists of judgments",
    kinds=("queries", "judgments"),
)
