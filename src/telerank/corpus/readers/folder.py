"""A folder of plain texts: each file is a document, and its docno is the path within the folder.

Files are read in the order of their paths if their names end in ``.txt``, ``.text`` or ``.md`` (or these and
``.gz``, ``.xz``); hidden and other files are ignored. Since a docno has no blanks, blanks, control characters
and ``%`` are encoded as in a URL: ``my notes.txt`` is ``my%20notes.txt``. This is a file format, not a data
set: source and licence are those of the texts.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import plain_name, read_first_lines, read_text
from telerank.errors import CollectionError, FormatError
from telerank.trec.recognition import Conditions
from telerank.types import Doc

_TEXTS = (".txt", ".text", ".md")
_QUOTED = re.compile(r"[\s\x00-\x1f\x7f-\x9f%]")
_QUERIES = re.compile(r"(?:topics|queries|query)\b", re.IGNORECASE)
_QRELS = re.compile(r"(?:qrels?|judge?ments)\b", re.IGNORECASE)
_JUDGMENT = re.compile(r"\s*\d+(?:\s+\S+){1,2}\s+-?\d+(?:\.\d+)?\s*")
_RECORDS = re.compile(
    r'\s*(?:\{\s*"|\[\s*\{|<(?:doc|top|QApairs)\b)|\.I\s+\d|Document\s+\d+\s*$', re.IGNORECASE
)
_EXAMINED = 1000  # files that must be texts for a folder to be recognised


def read_docs(folder: Path, encoding: str = "utf-8") -> Iterator[Doc]:
    """Read the documents of a folder and its subfolders."""
    for path in _files(folder):
        if _is_text(path):
            yield Doc(_docno(path, folder), read_text(path, encoding))


def _docno(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise FormatError(ascii(str(path)), None, "a file name in UTF-8") from error
    return _QUOTED.sub(lambda match: quote(match[0]), name)


def _files(folder: Path) -> Iterator[Path]:
    """All files that are not hidden, sorted by path, with the names of one folder at a time in memory."""
    with os.scandir(folder) as entries:
        names = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in names:
        if name.startswith("."):
            continue
        if is_folder:
            yield from _files(folder / name)
        else:
            yield folder / name


def _is_text(path: Path) -> bool:
    return Path(plain_name(path)).suffix.lower() in _TEXTS


def _conditions(path: Path) -> Conditions:
    if not path.is_dir():
        yield False, "a file, not a folder of texts"
        return
    files = list(itertools.islice(_files(path), _EXAMINED))
    other = next((file.name for file in files if not _is_text(file)), "")
    queries = next((file.name for file in files if _QUERIES.match(file.name)), "")
    qrels = next((file.name for file in files if _QRELS.match(file.name)), "")
    yield any(_is_text(file) for file in files), "no file in it is a text by its name (.txt, .md)"
    if other:
        yield False, f"{other}: not a text by its name (.txt, .md)"
    elif queries and qrels:
        yield False, f"{queries} and {qrels} are queries and judgments by their names"
    elif all(_QUERIES.match(file.name) or _QRELS.match(file.name) for file in files):
        yield False, "only queries or judgments by their names"
    elif records := next((file.name for file in files if _has_records(file)), ""):
        yield False, f"{records} has many records, and is not one text"


def _has_records(file: Path) -> bool:
    """Whether a file begins as judgments do, or as files of documents or queries."""
    lines = read_first_lines(file)[:3]
    judged = len(lines) > 1 and all(_JUDGMENT.fullmatch(line) for line in lines)
    return judged or any(_RECORDS.match(line) for line in lines[:1])


def _open(path: Path, encoding: str) -> Collection:
    if not path.is_dir():
        raise CollectionError(f"{path}: a file, not a folder of texts")
    unread = tuple(file.relative_to(path).as_posix() for file in _files(path) if not _is_text(file))
    return Collection(path.name, FOLDER.name, partial(read_docs, path, encoding), unread=unread)


FOLDER = Format("folder", _conditions, _open, "folder of plain texts (.txt, .md), a document each")
