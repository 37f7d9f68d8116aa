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
from operator import itemgetter
from pathlib import Path

from telerank.corpus.readers.answer_selection import (
    LABELS,
    CandidateQuestion,
    candidate_format,
    first_line,
    is_named,
    number_candidates,
    split_files,
)
from telerank.corpus.reading import list_few, plain_name, read_first_keys, read_text
from telerank.errors import FormatError
from telerank.trec.files import Conditions, Format, describe_json, numbered_lines, parse_json

_KEYS = {"question", "candidates", "answers"}


def _read(path: Path, encoding: str, prefix: str) -> Iterator[CandidateQuestion]:
    """Read the questions of a file, JSON or TSV by its content."""
    read = _read_json if read_first_keys(path) else _read_tsv
    for position, (question, candidates) in enumerate(read(path, encoding), 1):
        yield number_candidates(f"{prefix}{position}", question, candidates)


def _read_json(path: Path, encoding: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    loaded = parse_json(path, read_text(path, encoding))
    if not isinstance(loaded, list):
        raise FormatError(path, None, "an array of questions", describe_json(loaded))
    for position, record in enumerate(loaded, 1):
        match record:
            case {"question": str(question), "candidates": list(texts), "answers": list(answers)}:
                is_valid = all(isinstance(text, str) for text in texts)
            case _:
                is_valid = False
        if not is_valid:
            raise FormatError(path, None, f"a question with candidates and answers as item {position}")
        for answer in answers:
            if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(texts):
                raise FormatError(
                    path,
                    None,
                    f"answers of item {position} that are positions of its candidates",
                    describe_json(answer),
                )
        yield question, [(text, n in answers) for n, text in enumerate(texts)]


def _read_tsv(path: Path, encoding: str) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    rows = list[tuple[str, str, bool]]()
    for number, line in numbered_lines(path, encoding):
        columns = line.split("\t")
        if len(columns) != 3 or columns[2].strip() not in LABELS:
            raise FormatError(path, number, "3 columns with tabs between: question, sentence, 0 or 1", line)
        rows.append((columns[0], columns[1], LABELS[columns[2].strip()]))
    for question, own in groupby(rows, itemgetter(0)):
        yield question, [(text, answers) for _, text, answers in own]


def _files(path: Path) -> dict[str, Path]:
    tables, files = list[Path](), list_few(path)
    for file in files:
        row = first_line(file).split("\t")
        if plain_name(file).lower().endswith(".tsv") and len(row) == 3:
            tables += [file] * (row[2].strip() in LABELS and " " in row[1])
    return split_files(tables) | split_files(file for file in files if read_first_keys(file) >= _KEYS)


def _conditions(path: Path) -> Conditions:
    yield is_named(path, "selqa"), ""
    keys = "question, candidates and answers"
    yield _files(path), f"no file of {keys} in it" if path.is_dir() else f"its first object has not {keys}"


SELQA = candidate_format(
    Format("selqa", _conditions, _files, "SelQA: JSON of question, candidates, answers; or TSV"),
    _read,
    missing="no file of questions, candidates and answers",
    source="github.com/emorynlp/selqa",
)
