"""A question with its candidates, and the collection that files of such questions are.

Every candidate is a document, and those of a question are its pool ``SPLIT/candidates`` in the order of the
file. Candidates that answer have grade 1, the others 0. A question without an answer keeps its grades of 0,
so that it counts as 0 in every mean; notes count such questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from telerank.corpus.collection import Collection, rank_in_order
from telerank.corpus.readers.reading import name_splits, unread_files
from telerank.errors import FormatError
from telerank.types import Doc, Qrel, Query, Ranking

_CANDIDATES = "candidates"


@dataclass(frozen=True, slots=True)
class CandidateQuestion:
    """A question and its candidates, each with whether it answers the question."""

    query: Query
    candidates: tuple[tuple[Doc, bool], ...]


Read = Callable[[Path, str, str], Iterator[CandidateQuestion]]
"""Reads a file, with an encoding and the prefix of ids that the file does not state."""


def make_collection(
    path: Path, form: str, files: Mapping[str, Path], read: Read, *, encoding: str, source: str
) -> Collection:
    """The collection of files by split.

    Ids that the files do not state begin with the split if there are several.
    """
    several = len(files) > 1
    load = {
        split: cache(partial(_read_split, read, file, encoding, f"{split}-" if several else ""))
        for split, file in files.items()
    }
    return Collection(
        path.name,
        form,
        lambda: _distinct_docs(load, files),
        {split: partial(_queries, questions) for split, questions in load.items()},
        {split: partial(_qrels, questions) for split, questions in load.items()},
        pools={f"{split}/{_CANDIDATES}": partial(_pool, questions) for split, questions in load.items()},
        candidates=_CANDIDATES,
        source=source,
        notes=lambda: {"questions_without_answer": sum(map(_unanswered, load.values()))},
        unread=unread_files(path, files.values()),
    )


_Load = Callable[[], tuple[CandidateQuestion, ...]]


def split_files(files: list[Path]) -> dict[str, Path]:
    """Files by split; one without a split in its name beside others that have one is the sum of them."""
    splits = name_splits(files)
    return {split: file for split, file in splits.items() if split != "all"} or splits


def _read_split(read: Read, path: Path, encoding: str, prefix: str) -> tuple[CandidateQuestion, ...]:
    questions = tuple(read(path, encoding, prefix))
    seen = set[str]()
    for question in questions:
        qid, docnos = question.query.qid, [doc.docno for doc, _ in question.candidates]
        if qid in seen:
            raise FormatError(path, None, f"query {qid} once, with its candidates together")
        if len({*docnos}) < len(docnos):
            raise FormatError(path, None, f"each candidate of query {qid} once")
        seen.add(qid)
    return questions


def _distinct_docs(load: Mapping[str, _Load], files: Mapping[str, Path]) -> Iterator[Doc]:
    """The candidates of all splits; one with the docno of an earlier one must have its text."""
    known: dict[str, Doc] = {}
    for split, questions in load.items():
        for doc in (doc for question in questions() for doc, _ in question.candidates):
            if known.setdefault(doc.docno, doc) is doc:
                yield doc
            elif known[doc.docno] != doc:
                raise FormatError(files[split], None, f"one text for the candidate {doc.docno}", doc.text)


def _queries(questions: _Load) -> Iterator[Query]:
    return (question.query for question in questions())


def _qrels(questions: _Load) -> Iterator[Qrel]:
    return (
        Qrel(question.query.qid, doc.docno, int(answers))
        for question in questions()
        for doc, answers in question.candidates
    )


def _pool(questions: _Load) -> Iterator[Ranking]:
    for question in questions():
        yield rank_in_order(question.query, (doc.docno for doc, _ in question.candidates))


def _unanswered(questions: _Load) -> int:
    return sum(not any(answers for _, answers in question.candidates) for question in questions())
