"""Judged questions in tables: CSV and TSV files, and sheets of ``.xlsx`` and ``.ods`` files.

A row is a question, a document that is judged for it, and its grade. The first row names the columns, in any
order and case, with or without accents; others are ignored:

============  ==================================================================================
question      ``question``, ``query``, ``requête``, ``recherche``
document      ``document``, ``docno``, ``doc_id``, ``docid``, ``file``, ``fichier``, ``passage``
grade         ``grade``, ``note``, ``pertinence``, ``relevance``, ``score``, ``label``, ``jugement``
qid           ``qid``, ``query_id``, ``query-id``, ``q_id``
============  ==================================================================================

A table without questions has qids, documents and grades: the judgments of queries that stand elsewhere.
Without a grade column every document is relevant (1). A grade is a whole number, or yes, no, true, false,
oui, non, vrai, faux. An empty question is that of the row above, as in merged cells. Without a qid column the
qid of a question is its first words and a hash, so that it does not depend on other rows. A document is named
by docno or by file; the name of a file may have blanks, which count. Questions have single blanks.

Columns of ``.csv``, ``.tsv`` and ``.txt`` files (Excel's "Unicode text") are separated by commas, semicolons
or tabs, as the first row shows; a first line ``sep=;`` is skipped. Their encoding is that of their byte order
mark, else UTF-8 or, with a FormatWarning, Windows-1252, as Excel writes. Of several sheets the first that has
such columns is read. This is a file format, not a data set: source and licence are those of the questions.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from unicodedata import combining, normalize

from telerank.corpus.collection import Collection
from telerank.corpus.readers.files.folder import file_docno, name_text
from telerank.corpus.readers.files.processes import FileProcesses
from telerank.corpus.readers.files.text import FileLimits
from telerank.corpus.reading import WHOLE, plain_name
from telerank.errors import CollectionError, FormatError, FormatWarning, MissingExtra
from telerank.trec import Conditions, Format, check_id, open_bytes
from telerank.types import HIGHEST_GRADE, LEAST_GRADE, Doc, Qrel, Query

_COLUMNS = {
    "question": ("question", "questions", "query", "requête", "recherche"),
    "document": ("document", "documents", "docno", "doc_id", "docid", "file", "fichier", "passage"),
    "grade": ("grade", "note", "pertinence", "relevance", "score", "label", "jugement", "judgment"),
    "qid": ("qid", "query_id", "query-id", "q_id"),
}
_SHEETS = {".xlsx", ".ods"}
_TABLES = {".csv", ".tsv", ".txt", *_SHEETS}
_SIGNS = ",;\t"
_NEEDED = ({"question", "document"}, {"qid", "document", "grade"})
_NAMED = "question and document, or qid, document and grade"
_EXPECTED = f"a first row that names {_NAMED}"
_WORDS = dict.fromkeys(("yes", "true", "oui", "vrai"), 1) | dict.fromkeys(("no", "false", "non", "faux"), 0)
_GRADE = re.compile(r"([+-]?[0-9]{1,5})(?:[.,]0+)?")
_MOST_BYTES, _MOST_ROWS = 64 << 20, 1_000_000
_BEGINNING = 1 << 16
# Bounds of a process that reads a sheet.
_LIMITS = FileLimits(bytes=_MOST_BYTES, seconds=60.0, memory=2 << 30)
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NOT_A_DOCNO = re.compile(r"\s|%(?![0-9A-Fa-f]{2})")

Row = tuple[int, Sequence[str]]  # its number, from 1, and its cells


class JudgedRow(NamedTuple):
    """A row: its number in the file, from 1, the query, the docno and the grade."""

    number: int
    query: Query
    docno: str
    grade: int


def read_judged(path: Path, encoding: str = "utf-8") -> list[JudgedRow]:
    """The judgments of a table.

    Raises
    ------
    FormatError
        If a row has no question, no document or no grade, or contradicts another; it names file and row.
    MissingExtra
        If what reads sheets is not installed.
    """
    rows = iter(_read_sheet(path) if _suffix(path) in _SHEETS else _read_csv(path, encoding))
    number, header = next(rows, (1, ()))
    columns = find_columns(header)
    if not is_judged(columns):
        raise FormatError(path, number, _EXPECTED, "; ".join(header))
    judged: list[JudgedRow] = []
    texts: dict[str, str] = {}
    grades: dict[tuple[str, str], JudgedRow] = {}
    above = {"question": "", "qid": ""}
    for number, cells in rows:
        if any(cell.strip() for cell in cells[len(header) :]):
            raise FormatError(path, number, f"{len(header)} columns as in the header", "; ".join(cells))
        values = {name: _read_cell(name, cells, n) for name, n in columns.items()}
        if not any(values.values()):
            continue
        if not values["question" if "question" in values else "qid"]:
            values |= {name: above[name] for name in above.keys() & values.keys()}
        row = _read_row(path, number, values)
        above = {name: values[name] for name in above.keys() & values.keys()}
        qid, text = row.query.qid, row.query.text
        if texts.setdefault(qid, text) != text:
            raise FormatError(path, number, f"the question of {qid} as before, {texts[qid]!r:.80}", text)
        before = grades.setdefault((qid, row.docno), row)
        if before.grade != row.grade:
            what = f"the grade of {row.docno} as in row {before.number}, {before.grade}"
            raise FormatError(path, number, what, str(row.grade))
        if before is row:
            judged.append(row)
        if len(judged) > _MOST_ROWS:
            raise FormatError(path, number, f"at most {_MOST_ROWS:,} judgments")
    return judged


def _read_cell(name: str, cells: Sequence[str], column: int) -> str:
    """A cell without blanks around it, a question also without more than one between words."""
    text = cells[column].strip() if column < len(cells) else ""
    return " ".join(text.split()) if name == "question" else text


def _read_row(path: Path, number: int, values: dict[str, str]) -> JudgedRow:
    for name in ("question" if "question" in values else "qid", "document"):
        if not values[name]:
            raise FormatError(path, number, f"a {name}", "; ".join(values.values()))
    question, name = values.get("question", ""), values["document"]
    grade = values.get("grade", "1")
    match = _GRADE.fullmatch(grade)
    value = int(match[1]) if match else _WORDS.get(grade.casefold())
    if value is None or not LEAST_GRADE <= value <= HIGHEST_GRADE:
        raise FormatError(path, number, "a grade: a whole number, or yes or no", grade)
    qid = values["qid"] if "qid" in values else name_text(question, question)
    docno = file_docno(name) if _NOT_A_DOCNO.search(name) else name
    return JudgedRow(number, Query(check_id(qid, "qid", path, number), question), docno, value)


def find_columns(header: Sequence[str]) -> dict[str, int]:
    """The column of each field that a first row names; of several the first."""
    columns = {_plain(name): number for number, name in reversed([*enumerate(header)])}
    numbers = {
        field: [columns[_plain(name)] for name in names if _plain(name) in columns]
        for field, names in _COLUMNS.items()
    }
    return {field: own[0] for field, own in numbers.items() if own}


def is_judged(columns: Container[str]) -> bool:
    """Whether these fields make a table of judgments."""
    return any(all(name in columns for name in needed) for needed in _NEEDED)


def _plain(name: str) -> str:
    """A name in lower case without accents and blanks around it."""
    return "".join(letter for letter in normalize("NFKD", name.strip().casefold()) if not combining(letter))


def _suffix(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower()


def _read_csv(path: Path, encoding: str) -> Iterator[Row]:
    """The rows with a cell, with the numbers of their first lines."""
    with open_bytes(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise FormatError(path, None, f"at most {_MOST_BYTES >> 20} MiB of judgments")
    text = _decode(path, content, encoding)
    first, _, rest = text.partition("\n")
    skipped = 0
    if first.strip().casefold().startswith("sep=") and len(first.strip()) <= 5:
        text, skipped = rest, 1
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    number = 1 + skipped
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield number, cells
            number = reader.line_num + skipped + 1
    except csv.Error as error:
        raise FormatError(path, number, f"CSV ({error})") from error


def _decode(path: Path, content: bytes, encoding: str) -> str:
    marked = next((name for mark, name in _ENCODINGS.items() if content.startswith(mark)), "")
    try:
        return content.decode(marked or encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if marked or encoding.lower().replace("-", "") != "utf8":
            raise FormatError(path, line, f"text in {marked or encoding}") from error
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            raise FormatError(path, line, "text in UTF-8 or Windows-1252 (others: --encoding)") from error
        warnings.warn(f"{path}:{line}: not UTF-8; read as Windows-1252", FormatWarning, stacklevel=2)
        return text


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(text: str) -> str:
    """The sign that gives the first row the columns that are needed; a comma if none does."""
    return next((sign for sign in _SIGNS if is_judged(_first_columns(text, sign))), ",")


def _describe_lacking(columns: set[str]) -> str:
    """What the first row of a table that is not read lacks, and how it could be called."""
    lacking = [name for name in ("question", "document") if name not in columns]
    names = "; ".join(f"no column {name} (or {', '.join(_COLUMNS[name][1:])})" for name in lacking)
    return f"its first row, separated by commas, semicolons or tabs, has {names}"


def _first_columns(text: str, delimiter: str) -> set[str]:
    lines = csv.reader(io.StringIO(text[:_BEGINNING], newline=""), delimiter=delimiter)
    try:
        return {*find_columns(next((cells for cells in lines if any(map(str.strip, cells))), ()))}
    except csv.Error:
        return set()


def _read_sheet(path: Path) -> Iterator[Row]:
    """The rows of the first sheet that has the columns, read in a process of its own."""
    if find_spec("python_calamine") is None:
        raise MissingExtra("python_calamine", "sheets")
    if path.stat().st_size > _MOST_BYTES:
        raise FormatError(path, None, f"a file of at most {_MOST_BYTES >> 20} MiB")
    with FileProcesses(_LIMITS, 1) as processes:
        (answer,) = processes.read([{"sheet": str(path)}])
    if "problem" in answer:
        raise FormatError(path, None, f"a spreadsheet ({answer['reason'] or answer['problem']})")
    if answer["sheet"] is None:
        raise FormatError(path, None, f"a sheet with {_EXPECTED}", ", ".join(answer["names"]))
    return iter(enumerate(answer["rows"], answer["first"]))


def _conditions(path: Path) -> Conditions:
    suffix = _suffix(path)
    is_table = path.is_file() and suffix in _TABLES
    yield is_table, "not a .csv, .tsv, .txt, .xlsx or .ods file"
    if is_table and suffix not in _SHEETS:
        with open_bytes(path) as file:
            start = file.read(_BEGINNING)
        marked = next((name for mark, name in _ENCODINGS.items() if start.startswith(mark)), "")
        if marked:
            text = start.decode(marked, errors="replace")
        else:
            lines = start[: start.rfind(b"\n") + 1] or start  # whole characters
            text = lines.decode("utf-8" if _is_utf8(lines) else "cp1252", errors="replace")
        text = re.sub(r"\Asep=.\r?\n", "", text, flags=re.IGNORECASE)
        named = [_first_columns(text, sign) for sign in _SIGNS]
        yield any(map(is_judged, named)), _describe_lacking(set().union(*named))


def _open(path: Path, encoding: str) -> Collection:
    if not path.is_file():
        raise CollectionError(f"{path}: not a file of judged questions")
    rows: Callable[[], list[JudgedRow]] = lru_cache(1)(partial(read_judged, path, encoding))

    def queries() -> Iterator[Query]:
        own = {row.query.qid: row.query for row in rows()}
        if lacking := next((qid for qid, query in own.items() if not query.text), None):
            raise CollectionError(f"{path} has judgments alone, without the question of {lacking}")
        return iter(own.values())

    def qrels() -> Iterator[Qrel]:
        return (Qrel(row.query.qid, row.docno, row.grade) for row in rows())

    def docs() -> Iterator[Doc]:
        raise CollectionError(f"{path} has only judged questions: no documents")

    return Collection(path.name, JUDGED.name, docs, {WHOLE: queries}, {WHOLE: qrels}, size=0)


JUDGED = Format(
    "judged",
    _conditions,
    _open,
    "judged questions in CSV, TSV, .xlsx or .ods: question, document, grade (sheets: telerank[sheets])",
)
