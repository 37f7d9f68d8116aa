"""The formats of folders of files.

=====================  ==============================================================================
``folder``             plain texts (``.txt``, ``.text``, ``.md``), each a document, as they are
``documents``          PDF, DOCX, HTML, Markdown and text; long ones are cut into passages
``whole-documents``    the same, uncut: to be ranked by segments
=====================  ==============================================================================

A folder of plain texts is a collection whose documents are as they were given, and named by their files,
which judgments name, too: it stays a format of its own. PDF, DOCX, HTML and Markdown files have to be read by
a program, which some of them defeat, and are as long as books: their passages are what is ranked, encoded and
shown. These are file formats, not data sets: source and licence are those of the files.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.readers.files.folder import FolderFiles, list_files
from telerank.corpus.readers.files.processes import PASSAGE_WORDS
from telerank.corpus.readers.files.text import file_kind, is_text, require_modules
from telerank.corpus.reading import find_backups, is_note, read_first_lines
from telerank.errors import CollectionError
from telerank.trec import Conditions, Format

_QUERIES = re.compile(r"(?:topics|queries|query)\b", re.IGNORECASE)
_QRELS = re.compile(r"(?:qrels?|judge?ments)\b", re.IGNORECASE)
_JUDGMENT = re.compile(r"\s*\d+(?:\s+\S+){1,2}\s+-?\d+(?:\.\d+)?\s*")
_RECORDS = re.compile(
    r'\s*(?:\{\s*"|\[\s*\{|<(?:doc|top|QApairs)\b)|\.I\s+\d|Document\s+\d+\s*$', re.IGNORECASE
)
_EXAMINED = 1000  # files that a folder is recognised by
_BESIDE_NAMES = """
    .bmp .css .doc .docm .dotx .eml .epub .gif .ico .ini .jpeg .jpg .js .mp3 .mp4 .msg .odp .ods .odt
    .png .pps .ppt .pptx .rtf .svg .tif .tiff .webp .woff .woff2 .xls .xlsm .xlsx .zip
"""
# Other files that stand beside documents, and are not read; a folder with any others may be data.
_BESIDE = frozenset(_BESIDE_NAMES.split())


def _plain_conditions(path: Path) -> Conditions:
    if not path.is_dir():
        yield False, "a file, not a folder of texts"
        return
    files = _first_files(path)
    other = next((file.name for file in files if not is_text(file)), "")
    markdown = next((file.name for file in files if _is_document(file)), "")
    yield any(is_text(file) for file in files), "no file in it is a text by its name (.txt, .md)"
    if other:
        yield False, f"{other}: not a text by its name (.txt, .md)"
    elif markdown:
        yield False, f"{markdown}: Markdown, which the format documents reads"
    else:
        yield from _are_no_data(files)


def _document_conditions(path: Path) -> Conditions:
    if not path.is_dir():
        yield False, "a file, not a folder of files"
        return
    files = _first_files(path)
    documents = sum(map(_is_document, files))
    # a folder among the files is a link to one
    unknown = (file for file in files if not file_kind(file) and file.suffix.lower() not in _BESIDE)
    others = (file.name for file in unknown if not file.is_dir())
    yield documents, "no file in it is PDF, DOCX, HTML or Markdown by its name"
    yield 2 * documents >= len(files) > 0, ""
    if other := next(others, ""):
        yield False, f"{other}: neither a document by its name nor what stands beside documents"
    else:
        yield from _are_no_data([file for file in files if is_text(file)])


def _are_no_data(files: Sequence[Path]) -> Conditions:
    """The conditions that texts are not queries, judgments or many documents in a file."""
    queries = next((file.name for file in files if _QUERIES.match(file.name)), "")
    qrels = next((file.name for file in files if _QRELS.match(file.name)), "")
    if queries and qrels:
        yield False, f"{queries} and {qrels} are queries and judgments by their names"
    elif files and all(_QUERIES.match(file.name) or _QRELS.match(file.name) for file in files):
        yield False, "only queries or judgments by their names"
    elif records := next((file.name for file in files if _has_records(file)), ""):
        yield False, f"{records} has many records, and is not one text"


def _first_files(folder: Path) -> list[Path]:
    files = list(itertools.islice(list_files(folder), _EXAMINED))
    backups = {*find_backups(files)}
    return [file for file in files if file not in backups]


def _is_document(path: Path) -> bool:
    """Whether a file is of a kind that only ``documents`` reads; every folder may have a README."""
    return file_kind(path) not in ("", ".txt", ".text") and not is_note(path)


def _has_records(file: Path) -> bool:
    """Whether a file begins as judgments do, or as files of documents or queries."""
    lines = read_first_lines(file)[:3] if file.is_file() else []
    judged = len(lines) > 1 and all(_JUDGMENT.fullmatch(line) for line in lines)
    return judged or any(_RECORDS.match(line) for line in lines[:1])


def _open(form: str, path: Path, encoding: str) -> Collection:
    if not path.is_dir():
        raise CollectionError(f"{path}: a file, not a folder of files")
    is_plain = form == FOLDER.name
    files = FolderFiles(path, encoding, PASSAGE_WORDS if form == DOCUMENTS.name else None, is_plain)
    is_read = is_text if is_plain else file_kind
    listed = list(list_files(path))
    if not is_plain:
        for kind in sorted({file_kind(file) for file in listed}):
            require_modules(kind)
    return Collection(
        path.name,
        form,
        files.docs,
        files=files,
        unread=tuple(file.relative_to(path).as_posix() for file in listed if not is_read(file)),
    )


FOLDER = Format(
    "folder",
    _plain_conditions,
    partial(_open, "folder"),
    "folder of plain texts (.txt, .md), a document each",
)
DOCUMENTS = Format(
    "documents",
    _document_conditions,
    partial(_open, "documents"),
    "folder of PDF, DOCX, HTML, Markdown and text files, cut into passages (extra: telerank[files])",
)
WHOLE_DOCUMENTS: Format[Path, Collection] = Format(
    "whole-documents",
    lambda _: [(False, "only if it is chosen by its name")],
    partial(_open, "whole-documents"),
    "the same, a document each",
)
