"""TREC-QA: questions of TREC with sentences, as pseudo-XML with a line of tokens for each text.

``<QApairs id='1'>`` has a ``<question>``, and any number of ``<positive>`` and ``<negative>``, in each of
which the first line is the text, tokens separated by tabs. Further lines (parts of speech, entities) are
left out. A sentence's docno is its query's id and its position, ``1-0``. A folder has a file for each
split, named after it.

Source: Wang, Smith and Mitamura, What is the Jeopardy Model?, EMNLP-CoNLL 2007, in the edition of Yao et
al. 2013 (code.google.com/p/jacana). Licence: none stated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.answer_selection.questions import (
    CandidateQuestion,
    make_collection,
    split_files,
)
from telerank.corpus.readers.reading import list_few, read_first_lines, read_lines
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import check_id
from telerank.trec.recognition import Conditions
from telerank.types import Doc, Query

_BEGINS = re.compile(r"""<QApairs\s++id\s*+=\s*+['"]([^'"<>]*+)['"]\s*+>""", re.IGNORECASE)
_ELEMENTS = ("<question>", "<positive>", "<negative>")
_FIRST = re.compile(r"<QApairs\b", re.IGNORECASE)


def read_questions(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a file."""
    qid, texts = "", list[tuple[str, str]]()
    lines = read_lines(path, encoding)
    for number, line in lines:
        name = line.strip().lower()
        if (match := _BEGINS.fullmatch(line.strip())) and not qid:
            qid, texts = prefix + check_id(match[1], "id", path, number), []
        elif name == "</qapairs>" and qid:
            yield _question(path, number, qid, texts)
            qid = ""
        elif name in _ELEMENTS and qid:
            texts.append((name, _read_text(path, number, name, lines)))
        else:
            what = f"{', '.join(_ELEMENTS)} or </QApairs>" if qid else "<QApairs id='…'>"
            raise FormatError(path, number, what, line)
    if qid:
        raise FormatError(path, None, f"</QApairs> of {qid} before the file ends")


def _read_text(path: Path, begun: int, name: str, lines: Iterator[tuple[int, str]]) -> str:
    """The first line of an element; those up to its end tag are consumed."""
    end, text = name.replace("<", "</"), ""
    for number, line in lines:
        tag = line.strip().lower()
        if tag == end:
            break
        if tag in _ELEMENTS or _FIRST.match(tag):
            raise FormatError(path, number, f"{end} of line {begun}", line)
        text = text or " ".join(line.split())
    if not text:
        raise FormatError(path, begun, f"a line of text in {name}")
    return text


def _question(path: Path, number: int, qid: str, texts: list[tuple[str, str]]) -> CandidateQuestion:
    questions = [text for tag, text in texts if tag == "<question>"]
    if len(questions) != 1:
        raise FormatError(path, number, f"one <question> in {qid}", str(len(questions)))
    candidates = [(tag, text) for tag, text in texts if tag != "<question>"]
    return CandidateQuestion(
        Query(qid, questions[0]),
        tuple((Doc(f"{qid}-{n}", text), tag == "<positive>") for n, (tag, text) in enumerate(candidates)),
    )


def _files(path: Path) -> list[Path]:
    firsts = ((file, read_first_lines(file)[:1]) for file in list_few(path))
    return [file for file, first in firsts if any(_FIRST.match(line.strip()) for line in first)]


def _conditions(path: Path) -> Conditions:
    where = "no file in it begins" if path.is_dir() else "it does not begin"
    yield _files(path), f"{where} with <QApairs id='…'>"


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path) or ([path] if path.is_file() else [])
    if not files:
        raise CollectionError(f"{path}: no file that begins with <QApairs id='…'>")
    source = "code.google.com/p/jacana"
    return make_collection(
        path, TRECQA.name, split_files(files), read_questions, encoding=encoding, source=source
    )


TRECQA = Format("trecqa", _conditions, _open, "TREC-QA: pseudo-XML of <QApairs>, tokens separated by tabs")
