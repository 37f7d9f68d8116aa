"""Questions and sentences in four parallel files, as castorini distributes WikiQA and TREC-QA.

==========  ===========================================
``a.toks``  the question, once for each of its sentences
``b.toks``  the sentence
``id.txt``  the question's id
``sim.txt`` the label, 0 or 1
==========  ===========================================

A collection is a folder with these files, or of such folders, each a split named as the folder. A
sentence's docno is its line in the files, after the split if there are several (``test-12``).

Source: github.com/castorini/data (Rao, He and Lin, CIKM 2016). Licence: that of each set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, zip_longest
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.answer_selection.questions import CandidateQuestion, make_collection
from telerank.corpus.readers.reading import (
    WHOLE,
    decode,
    find_file,
    is_note,
    list_few,
    require_file,
    unread_files,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import check_id, open_bytes, raw_lines
from telerank.trec.recognition import Conditions
from telerank.types import Doc, Query

_NAMES = ("id.txt", "a.toks", "b.toks", "sim.txt")
_LABELS = {"0": False, "1": True}


def read_questions(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a folder; the lines of a question are together."""
    for query, rows in groupby(_rows(path, encoding, prefix), lambda row: row[0]):
        yield CandidateQuestion(query, tuple((doc, answers) for _, doc, answers in rows))


def _rows(path: Path, encoding: str, prefix: str) -> Iterator[tuple[Query, Doc, bool]]:
    files = [_lines(require_file(path, name), encoding) for name in _NAMES]
    for number, columns in enumerate(zip_longest(*files), 1):
        if None in columns:
            short = path / _NAMES[columns.index(None)]
            raise FormatError(short, number, f"as many lines as the longest of {', '.join(_NAMES)}")
        qid, question, sentence, label = map(str.strip, columns)
        if label not in _LABELS:
            raise FormatError(path / _NAMES[-1], number, "0 or 1", label)
        query = Query(check_id(qid, "id", path / _NAMES[0], number), question)
        yield query, Doc(f"{prefix}{number}", sentence), _LABELS[label]


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """All lines, blank ones too: the files are parallel."""
    with open_bytes(path) as file:
        for number, line in raw_lines(path, file):
            yield decode(line, path, encoding, number)


def _folders(path: Path) -> dict[str, Path]:
    """The folders with all four files, by split; all entries of a folder of splits are such folders."""
    if not _missing(path):
        return {WHOLE: path}
    entries = [entry for entry in list_few(path) if not is_note(entry)] if path.is_dir() else []
    return {} if any(map(_missing, entries)) else {entry.name: entry for entry in entries}


def _missing(path: Path) -> list[str]:
    return [name for name in _NAMES if not find_file(path, name)]


def _conditions(path: Path) -> Conditions:
    missing = _missing(path)
    yield from ((name not in missing, "") for name in _NAMES[1:])
    yield path.is_dir() and _folders(path), f"no {', '.join(missing)} in it" if path.is_dir() else "no folder"


def _open(path: Path, encoding: str) -> Collection:
    folders = _folders(path)
    if not folders:
        raise CollectionError(f"{path}: expected {', '.join(_NAMES)} in it, or in folders in it")
    source = "github.com/castorini/data"
    collection = make_collection(
        path, PARALLEL.name, folders, read_questions, encoding=encoding, source=source
    )
    own = [find_file(path, name) for name in _NAMES]
    return replace(collection, unread=unread_files(path, [*own, *folders.values()]))


PARALLEL = Format("parallel", _conditions, _open, f"castorini's parallel files: {', '.join(_NAMES)}")
