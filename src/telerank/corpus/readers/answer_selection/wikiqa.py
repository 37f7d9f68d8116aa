"""WikiQA: questions of Bing with the sentences of a Wikipedia page, as its TSV has them.

A line has question, document and sentence, each with its id, and the label; sentences are the documents,
with the page as title. A collection is a file, or a folder with ``WikiQA-train.tsv``, ``-dev`` and
``-test``; ``WikiQA.tsv`` beside these has the same questions again and is not read.

Source: Yang et al., WikiQA: A Challenge Dataset for Open-Domain Question Answering, EMNLP 2015
(microsoft.com/download, id 52419). Licence: Microsoft Research Data License.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
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

_HEADER = ["QuestionID", "Question", "DocumentID", "DocumentTitle", "SentenceID", "Sentence", "Label"]
_LABELS = {"0": False, "1": True}


def read_questions(path: Path, encoding: str, _prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a file, each with its sentences, which are together."""
    for query, rows in groupby(_rows(path, encoding), lambda row: row[0]):
        yield CandidateQuestion(query, tuple((doc, answers) for _, doc, answers in rows))


def _rows(path: Path, encoding: str) -> Iterator[tuple[Query, Doc, bool]]:
    for number, line in read_lines(path, encoding):
        columns = line.split("\t")
        if number == 1 and columns == _HEADER:
            continue
        if len(columns) != len(_HEADER) or columns[-1] not in _LABELS:
            what = (
                f"{len(_HEADER)} columns with tabs between, {', '.join(_HEADER)}, of which the last is 0 or 1"
            )
            raise FormatError(path, number, what, line)
        qid, question, _, title, docno, sentence, label = columns
        doc = Doc(check_id(docno, "SentenceID", path, number), sentence, title)
        yield Query(check_id(qid, "QuestionID", path, number), question), doc, _LABELS[label]


def _files(path: Path) -> list[Path]:
    firsts = ((file, read_first_lines(file)[:1]) for file in list_few(path))
    return [file for file, first in firsts if first and first[0].rstrip().split("\t") == _HEADER]


def _conditions(path: Path) -> Conditions:
    yield any("wikiqa" in file.name.lower() for file in list_few(path)), ""
    where = "no file in it has a first line that begins" if path.is_dir() else "its first line does not begin"
    yield _files(path), f"{where} with QuestionID and Question"


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path) or ([path] if path.is_file() else [])
    if not files:
        raise CollectionError(f"{path}: no file with the columns {', '.join(_HEADER)}")
    source = "microsoft.com/download, id 52419"
    return make_collection(
        path, WIKIQA.name, split_files(files), read_questions, encoding=encoding, source=source
    )


WIKIQA = Format("wikiqa", _conditions, _open, "WikiQA: TSV of QuestionID, Question, …, Sentence, Label")
