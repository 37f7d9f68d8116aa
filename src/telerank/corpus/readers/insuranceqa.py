"""InsuranceQA v2 in its official layout: vocabulary, label2answer, and question files with pools.

Texts are sequences of word numbers; the file ``vocabulary`` tells the words. The answers are the
documents, and an answer's label is its docno. A question has no id in the files: its qid is its place
in its split, ``test-1`` for the first; all question files of a split list them in the same order, which
is checked. The file of all questions without splits holds nothing more and is not read.

Source: github.com/shuzi/insuranceQA (Feng et al. 2015). Licence as stated there: research purposes only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from telerank.corpus.collection import Collection, Format
from telerank.corpus.readers.reading import find_file, plain_name, read_lines
from telerank.errors import CollectionError, FormatError
from telerank.types import Doc, Qrel, Query, Ranking

_SPLITS = ("train", "valid", "test")
_QUESTION_FILE = re.compile(
    r"InsuranceQA\.question\.anslabel\.(raw|token)\.(\d+)\.pool\.solr\.(train|valid|test)\.encoded"
)
_WORD = re.compile(r"idx_\d+")


@dataclass(frozen=True, slots=True)
class InsuranceQuestion:
    """One line of a question file; ``pool`` in the order of the file, which is Solr's, best first."""

    query: Query
    domain: str
    relevant: tuple[str, ...]
    pool: tuple[str, ...]


def read_vocabulary(path: str | Path, *, encoding: str = "utf-8") -> dict[str, str]:
    """The word of each number (``idx_17904``).

    Raises
    ------
    FormatError
        If a line is not ``idx_N<TAB>word``, or a number comes twice.
    """
    words: dict[str, str] = {}
    for number, line in read_lines(Path(path), encoding):
        index, tab, word = line.partition("\t")
        if not tab or not word or not _WORD.fullmatch(index):
            raise FormatError(path, number, "2 columns with a tab between: idx_N word", line)
        if words.setdefault(index, word) != word:
            raise FormatError(path, number, "a number that has no other word", line)
    return words


def read_answers(path: str | Path, words: Mapping[str, str], *, encoding: str = "utf-8") -> Iterator[Doc]:
    """The documents of a ``label2answer`` file; a token that is no number stands for itself.

    Raises
    ------
    FormatError
        If a line is not ``label<TAB>text``, or a number is not in the vocabulary.
    """
    for number, line in read_lines(Path(path), encoding):
        columns = line.split("\t")
        if len(columns) != 2 or not columns[0].isdecimal():
            raise FormatError(path, number, "2 columns with a tab between: label text", line)
        yield Doc(columns[0], _decoded(columns[1], words, path, number))


def read_questions(
    path: str | Path, words: Mapping[str, str], split: str, *, encoding: str = "utf-8"
) -> Iterator[InsuranceQuestion]:
    """The questions of a file with pools (four columns) or without (three); qids are ``split-1``, …

    Raises
    ------
    FormatError
        If a line has other columns, a label is not a number or comes twice, or a word is unknown.
    """
    for place, (number, line) in enumerate(read_lines(Path(path), encoding), 1):
        columns = line.split("\t")
        if len(columns) not in {3, 4}:
            raise FormatError(
                path, number, "3 or 4 columns with tabs between: domain question labels pool", line
            )
        query = Query(f"{split}-{place}", _decoded(columns[1], words, path, number))
        relevant, pool = (_labels(column, path, number) for column in (*columns[2:], "")[:2])
        yield InsuranceQuestion(query, columns[0], relevant, pool)


def _decoded(text: str, words: Mapping[str, str], path: str | Path, number: int) -> str:
    return " ".join(_word(token, words, path, number) for token in text.split(" ") if token)


def _word(token: str, words: Mapping[str, str], path: str | Path, number: int) -> str:
    word = words.get(token)
    if word is None and _WORD.fullmatch(token):
        raise FormatError(path, number, "words of the vocabulary", token)
    return token if word is None else word


def _labels(column: str, path: str | Path, number: int) -> tuple[str, ...]:
    labels = tuple(column.split())
    if not all(label.isdecimal() for label in labels) or len(set(labels)) != len(labels):
        raise FormatError(path, number, "answer labels, numbers with blanks between, each once", column)
    return labels


@dataclass(frozen=True)
class _Folder:
    """The files of one variety; ``questions[split][pool size]``, sizes rising."""

    vocabulary: Path
    answers: Path
    questions: Mapping[str, Mapping[int, Path]]
    encoding: str

    @functools.cached_property
    def words(self) -> Mapping[str, str]:
        return read_vocabulary(self.vocabulary, encoding=self.encoding)

    def docs(self) -> Iterator[Doc]:
        return read_answers(self.answers, self.words, encoding=self.encoding)

    def notes(self) -> dict[str, int]:
        texts = (line.partition("\t")[2] for _, line in read_lines(self.answers, self.encoding))
        strange = sum(not _WORD.fullmatch(token) for text in texts for token in text.split(" ") if token)
        return {"tokens_that_stand_for_themselves": strange}

    def read(self, split: str, size: int | None = None) -> Iterator[InsuranceQuestion]:
        """The questions of a split from the file with pools of that size, by default the smallest."""
        files = self.questions[split]
        file = files[next(iter(files)) if size is None else size]
        return read_questions(file, self.words, split, encoding=self.encoding)

    def queries(self, split: str) -> Iterator[Query]:
        return (question.query for question in self.read(split))

    def qrels(self, split: str) -> Iterator[Qrel]:
        return (Qrel(one.query.qid, label, 1) for one in self.read(split) for label in one.relevant)

    def pool(self, split: str, size: int) -> Iterator[Ranking]:
        """The pools as rankings whose scores fall by one from place to place."""
        for first, question in zip_longest(self.read(split), self.read(split, size)):
            if first is None or question is None or first.query != question.query:
                here = (question or first).query.qid
                raise FormatError(
                    self.questions[split][size], None, f"the questions of the smallest pool; see {here}"
                )
            scores = np.arange(len(question.pool), 0, -1, dtype=np.float32)
            yield Ranking.presorted(question.query, question.pool, scores)


def _folder(path: Path, variety: str, encoding: str = "utf-8") -> _Folder | None:
    if not path.is_dir():
        return None
    vocabulary = find_file(path, "vocabulary")
    answers = find_file(path, f"InsuranceQA.label2answer.{variety}.encoded")
    if vocabulary is None or answers is None:
        return None
    questions: dict[str, dict[int, Path]] = {split: {} for split in _SPLITS}
    for file in sorted(path.iterdir()):
        found = _QUESTION_FILE.fullmatch(plain_name(file))
        if found and found[1] == variety:
            questions[found[3]][int(found[2])] = file
    rising = {split: dict(sorted(files.items())) for split, files in questions.items() if files}
    return _Folder(vocabulary, answers, rising, encoding)


def _open(variety: str, path: Path, encoding: str) -> Collection:
    folder = _folder(path, variety, encoding)
    if folder is None:
        raise CollectionError(
            f"{path}: expected vocabulary and InsuranceQA.label2answer.{variety}.encoded in it"
        )
    return Collection(
        name=path.name,
        format=(INSURANCEQA if variety == "raw" else INSURANCEQA_TOKEN).name,
        docs=folder.docs,
        queries={split: functools.partial(folder.queries, split) for split in folder.questions},
        qrels={split: functools.partial(folder.qrels, split) for split in folder.questions},
        pools={
            f"{split}/{size}": functools.partial(folder.pool, split, size)
            for split, files in folder.questions.items()
            for size in files
        },
        licence="research purposes only",
        source="github.com/shuzi/insuranceQA",
        notes=folder.notes,
    )


INSURANCEQA = Format(
    "insuranceqa",
    lambda path: _folder(path, "raw") is not None,
    functools.partial(_open, "raw"),
    "InsuranceQA v2: vocabulary, InsuranceQA.label2answer.raw.encoded, …",
)
"""The texts as they were written. Pools are ``test/100``, ``test/500``, … for every size that is there."""

INSURANCEQA_TOKEN = Format(
    "insuranceqa-token",
    lambda path: _folder(path, "raw") is None and _folder(path, "token") is not None,
    functools.partial(_open, "token"),
    "InsuranceQA v2, tokenised: InsuranceQA.label2answer.token.encoded, …",
)
"""The tokenised variety; where a folder holds both, the raw one is taken unless this is forced."""
