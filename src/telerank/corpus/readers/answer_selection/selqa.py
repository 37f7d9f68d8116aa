"""SelQA: questions on Wikipedia with the sentences of a section, as JSON or as TSV.

The JSON is an array of questions with ``question``, ``candidates`` (sentences) and ``answers`` (the
positions of those that answer), the TSV has the columns question, sentence and label, lines of a question
together. A question's id is its position from 1, a sentence's docno that and its own, ``1-0``. If a folder
has a split in both forms, the JSON is read.

Source: Jurczyk, Zhai and Choi, SelQA: A New Benchmark for Selection-based Question Answering, ICTAI 2016
(github.com/emorynlp/selqa). Licence: Apache-2.0.
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
from telerank.corpus.readers.reading import (
    list_few,
    plain_name,
    read_first_keys,
    read_first_lines,
    read_lines,
    read_text,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec.files import describe_json, parse_json
from telerank.trec.recognition import Conditions
from telerank.types import Doc, Query

_KEYS = {"question", "candidates", "answers"}
_LABELS = {"0", "1"}


def read_questions(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a file, JSON or TSV by its content."""
    read = _read_json if read_first_keys(path) else _read_tsv
    for position, (question, candidates) in enumerate(read(path, encoding), 1):
        qid = f"{prefix}{position}"
        docs = (Doc(f"{qid}-{n}", text) for n, (text, _) in enumerate(candidates))
        yield CandidateQuestion(
            Query(qid, question), tuple(zip(docs, (answers for _, answers in candidates), strict=True))
        )


_Candidates = list[tuple[str, bool]]


def _read_json(path: Path, encoding: str) -> Iterator[tuple[str, _Candidates]]:
    loaded = parse_json(path, read_text(path, encoding))
    if not isinstance(loaded, list):
        raise FormatError(path, None, "an array of questions", describe_json(loaded))
    for position, record in enumerate(loaded, 1):
        fields = record if isinstance(record, dict) else {}
        question, texts, answers = (fields.get(key) for key in ("question", "candidates", "answers"))
        valid = isinstance(texts, list) and isinstance(answers, list) and isinstance(question, str)
        if not valid or not all(isinstance(text, str) for text in texts or ()):
            raise FormatError(path, None, f"a question with candidates and answers as item {position}")
        for answer in answers or ():
            if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(texts or ()):
                what = f"answers of item {position} that are positions of its candidates"
                raise FormatError(path, None, what, describe_json(answer))
        yield str(question), [(text, n in (answers or ())) for n, text in enumerate(texts or ())]


def _read_tsv(path: Path, encoding: str) -> Iterator[tuple[str, _Candidates]]:
    for question, rows in groupby(_rows(path, encoding), lambda row: row[0]):
        yield question, [(text, answers) for _, text, answers in rows]


def _rows(path: Path, encoding: str) -> Iterator[tuple[str, str, bool]]:
    for number, line in read_lines(path, encoding):
        columns = line.split("\t")
        if len(columns) != 3 or columns[2].strip() not in _LABELS:
            what = "3 columns with tabs between: question, sentence, 0 or 1"
            raise FormatError(path, number, what, line)
        yield columns[0], columns[1], columns[2].strip() == "1"


def _files(path: Path) -> dict[str, Path]:
    files = list_few(path)
    tables = split_files([file for file in files if _is_table(file)])
    return tables | split_files([file for file in files if read_first_keys(file) >= _KEYS])


def _is_table(file: Path) -> bool:
    rows = [line.split("\t") for line in read_first_lines(file)[:1]]
    is_tsv = plain_name(file).lower().endswith(".tsv")
    return is_tsv and any(len(row) == 3 and row[2].strip() in _LABELS and " " in row[1] for row in rows)


def _conditions(path: Path) -> Conditions:
    yield any("selqa" in file.name.lower() for file in list_few(path)), ""
    keys = "question, candidates and answers"
    yield _files(path), f"no file of {keys} in it" if path.is_dir() else f"its first object has not {keys}"


def _open(path: Path, encoding: str) -> Collection:
    files = _files(path) or ({"all": path} if path.is_file() else {})
    if not files:
        raise CollectionError(f"{path}: no file of questions, candidates and answers")
    source = "github.com/emorynlp/selqa"
    return make_collection(path, SELQA.name, files, read_questions, encoding=encoding, source=source)


SELQA = Format("selqa", _conditions, _open, "SelQA: JSON of question, candidates, answers; or TSV")
