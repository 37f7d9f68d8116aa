"""InsuranceQA v2 in its official layout: vocabulary, label2answer, and question files with pools.

Texts are sequences of word numbers, and the file ``vocabulary`` gives the words. The answers are the
documents, and an answer's label is its docno. Questions have no ids in the files: the qid is the position in
the split, ``test-1`` for the first. All question files of a split must have the same order, which is checked.
The file of all questions without splits adds nothing and is not read.

Source: github.com/shuzi/insuranceQA (Feng et al. 2015). Licence as stated there: research purposes only.

``insuranceqa``: The original texts. Pools are ``test/100``, ``test/500``, … for each size there is.

``insuranceqa-token``: The tokenised variety, which must be chosen with ``format`` if a folder contains both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.reading import (
    bind_parts,
    find_file,
    has_file,
    list_files,
    plain_name,
    read_columns,
)
from telerank.errors import CollectionError, FormatError
from telerank.trec import Conditions, Format, numbered_lines
from telerank.types import Doc, Qrel, Query, Ranking

_QUESTION_FILE = re.compile(
    r"InsuranceQA\.question\.anslabel\.(raw|token)\.(\d+)\.pool\.solr\.(train|valid|test)\.encoded"
)
_WORD = re.compile(r"idx_\d+")


# A line of a question file: the query, the labels of its answers, and its pool, which is Solr's, best first.
InsuranceQuestion: TypeAlias = tuple[Query, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class _Folder:
    """The files of one variety; ``questions[split][pool size]``, sizes ascending."""

    vocabulary: Path
    answers: Path
    questions: Mapping[str, Mapping[int, Path]]
    encoding: str

    @cached_property
    def words(self) -> Mapping[str, str]:
        """The word of each number (``idx_17904``)."""
        words: dict[str, str] = {}
        for number, (index, word) in read_columns(self.vocabulary, self.encoding, "idx_N word"):
            if not word or not _WORD.fullmatch(index):
                raise FormatError(self.vocabulary, number, "a number such as idx_1 and a word", index)
            if words.setdefault(index, word) != word:
                raise FormatError(self.vocabulary, number, "a number with only one word", index)
        return words

    def docs(self) -> Iterator[Doc]:
        for number, (label, text) in read_columns(self.answers, self.encoding, "label text"):
            if not label.isdecimal() or "\t" in text:
                raise FormatError(self.answers, number, "a label, which is a number, and a text", label)
            yield Doc(label, self._decode(text, self.answers, number))

    def notes(self) -> dict[str, int]:
        texts = (line.partition("\t")[2] for _, line in numbered_lines(self.answers, self.encoding))
        return {
            "tokens_that_stand_for_themselves": sum(
                not _WORD.fullmatch(token) for text in texts for token in text.split(" ") if token
            )
        }

    def read(self, split: str, size: int | None = None) -> Iterator[InsuranceQuestion]:
        """The questions of a split from the file with pools of this size, by default the smallest."""
        files = self.questions[split]
        path = files[min(files) if size is None else size]
        for position, (number, line) in enumerate(numbered_lines(path, self.encoding), 1):
            columns = line.split("\t")
            if len(columns) not in {3, 4}:
                what = "3 or 4 columns with tabs between: domain question labels pool"
                raise FormatError(path, number, what, line)
            query = Query(f"{split}-{position}", self._decode(columns[1], path, number))
            relevant, pool = (tuple(column.split()) for column in (*columns[2:], "")[:2])
            for labels, column in zip((relevant, pool), columns[2:], strict=False):
                if not all(label.isdecimal() for label in labels) or len({*labels}) < len(labels):
                    what = "answer labels: different numbers separated by blanks"
                    raise FormatError(path, number, what, column)
            yield query, relevant, pool

    def pool(self, split: str, size: int) -> Iterator[Ranking]:
        for first, question in zip_longest(self.read(split), self.read(split, size)):
            if first is None or question is None or first[0] != question[0]:
                raise FormatError(
                    self.questions[split][size],
                    None,
                    f"the questions of the smallest pool; see {(question or first)[0].qid}",
                )
            yield rank_in_order(question[0], question[2])

    def _decode(self, text: str, path: Path, number: int) -> str:
        """Replace word numbers by words; a token that is not a word number is kept as it is."""
        tokens = [token for token in text.split(" ") if token]
        for token in tokens:
            if token not in self.words and _WORD.fullmatch(token):
                raise FormatError(path, number, "words of the vocabulary", token)
        return " ".join(self.words.get(token, token) for token in tokens)


def _find_folder(path: Path, variety: str, encoding: str = "utf-8") -> _Folder | None:
    vocabulary = find_file(path, "vocabulary")
    answers = find_file(path, f"InsuranceQA.label2answer.{variety}.encoded")
    if vocabulary is None or answers is None:
        return None
    matches = ((_QUESTION_FILE.fullmatch(plain_name(file)), file) for file in list_files(path))
    files = sorted(
        (int(match[2]), match[3], file) for match, file in matches if match and match[1] == variety
    )
    questions = {
        split: {size: file for size, own, file in files if own == split}
        for split in ("train", "valid", "test")
        if any(own == split for _, own, _ in files)
    }
    return _Folder(vocabulary, answers, questions, encoding)


def _conditions(variety: str, path: Path) -> Conditions:
    yield from has_file(path, "vocabulary")
    if path.is_dir():
        yield from has_file(path, f"InsuranceQA.label2answer.{variety}.encoded")
        if variety == "token" and _find_folder(path, "raw"):
            yield False, "the original texts are there, too"


def _open(variety: str, path: Path, encoding: str) -> Collection:
    folder = _find_folder(path, variety, encoding)
    if folder is None:
        raise CollectionError(
            f"{path}: expected vocabulary and InsuranceQA.label2answer.{variety}.encoded in it"
        )
    questions = {split: partial(folder.read, split) for split in folder.questions}
    return Collection(
        name=path.name,
        format=(INSURANCEQA if variety == "raw" else INSURANCEQA_TOKEN).name,
        docs=folder.docs,
        queries=bind_parts(questions, lambda lines: (query for query, _, _ in lines)),
        qrels=bind_parts(
            questions,
            lambda lines: (Qrel(query.qid, label, 1) for query, relevant, _ in lines for label in relevant),
        ),
        pools={
            f"{split}/{size}": partial(folder.pool, split, size)
            for split, files in folder.questions.items()
            for size in files
        },
        licence="research purposes only",
        source="github.com/shuzi/insuranceQA",
        notes=folder.notes,
    )


INSURANCEQA = Format(
    "insuranceqa",
    partial(_conditions, "raw"),
    partial(_open, "raw"),
    "InsuranceQA v2: vocabulary, InsuranceQA.label2answer.raw.encoded, …",
)

INSURANCEQA_TOKEN = Format(
    "insuranceqa-token",
    partial(_conditions, "token"),
    partial(_open, "token"),
    "InsuranceQA v2, tokenised: InsuranceQA.label2answer.token.encoded, …",
)
