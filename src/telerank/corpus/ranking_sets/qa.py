"""Question-answering sets as questions over one set of documents: merged, without duplicates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.trec.files import check_id
from telerank.types import Answer, Doc, Progress, Query, silent

WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the documents that answer it, and its answers as spans of them, where a set has any."""

    query: Query
    positives: tuple[str, ...]
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeTally:
    """``questions`` of all sets; those left out, and documents whose text stood before."""

    questions: int = 0
    duplicate_questions: int = 0
    without_positive: int = 0
    documents: int = 0
    duplicate_documents: int = 0


@dataclass(frozen=True, eq=False)
class MergedSet:
    docs: Mapping[str, Doc]
    questions: tuple[Question, ...]
    tally: MergeTally


def merge(collections: Sequence[Collection], *, progress: Progress = silent) -> MergedSet:
    """All splits of the collections in one; ids get the name of their set before them (``piaf-0-3``).

    Documents of the same text are one, the first. Questions of the same :func:`normalise` are one,
    the first; its positives and answers are those of all of them, since who asks in the same words
    is answered by any. A question without a relevant document (``is_impossible``) is left out.
    Everything is held in memory.

    Raises
    ------
    CollectionError
        If two sets have one name, a set has no questions, a qid means two questions in two splits,
        or qrels name a document that the set does not have.
    FormatError
        If an id is empty or holds a blank.
    """
    names = [_prefix(one) for one in collections]
    for name in names:
        if names.count(name) > 1:
            raise CollectionError(f"two of the sets are named {name!r}: rename a folder or a file")
    docs: dict[str, Doc] = {}
    by_text: dict[str, str] = {}
    questions: dict[str, Question] = {}
    tally = MergeTally()
    for done, one in enumerate(collections):
        progress("reading sets", done, len(collections))
        known = _add_docs(one, docs, by_text)
        asked = _questions(one, known)
        answered = [question for question in asked if question.positives]
        before = len(questions)
        for question in answered:
            key = normalise(question.query.text)
            questions[key] = _joined(questions[key], question) if key in questions else question
        tally = MergeTally(
            questions=tally.questions + len(asked),
            duplicate_questions=tally.duplicate_questions + len(answered) - (len(questions) - before),
            without_positive=tally.without_positive + len(asked) - len(answered),
            documents=tally.documents + len(known),
            duplicate_documents=tally.documents + len(known) - len(docs),
        )
    return MergedSet(MappingProxyType(docs), tuple(questions.values()), tally)


def normalise(text: str) -> str:
    """Words in compatibility form and without case, a blank between; the text itself where it has no word."""
    return " ".join(WORDS.findall(unicodedata.normalize("NFKC", text).casefold())) or text.strip()


def _prefix(one: Collection) -> str:
    """The set's name as a part of an id, which has no blank."""
    return "_".join(one.name.split())


def _add_docs(one: Collection, docs: dict[str, Doc], by_text: dict[str, str]) -> dict[str, str]:
    """Add what is new, and tell the new docno of every old one."""
    known: dict[str, str] = {}
    for doc in one.docs():
        docno = by_text.setdefault(doc.text, f"{_prefix(one)}-{check_id(doc.docno, 'docno', one.name)}")
        known[doc.docno] = docno
        if docno not in docs:
            docs[docno] = replace(doc, docno=docno)
    return known


def _questions(one: Collection, known: Mapping[str, str]) -> list[Question]:
    """Every question of a set in all its splits, also one without a positive."""
    if not one.queries:
        raise CollectionError(f"{one.name} has no questions")
    texts: dict[str, str] = {}
    positives: dict[str, list[str]] = {}
    answers: dict[str, list[Answer]] = {}
    for split in one.splits:
        for query in one.queries.get(split, tuple)():
            if texts.setdefault(query.qid, query.text) != query.text:
                raise CollectionError(f"{one.name}: {query.qid!r} is another question in split {split!r}")
        for qrel in one.qrels.get(split, tuple)():
            if qrel.grade >= one.relevant_from:
                positives.setdefault(qrel.qid, []).append(_known(one, known, qrel.docno))
        for answer in one.answers.get(split, tuple)():
            docno = _known(one, known, answer.docno)
            answers.setdefault(answer.qid, []).append(replace(answer, docno=docno))
    return [
        _question(
            Query(f"{_prefix(one)}-{check_id(qid, 'qid', one.name)}", text),
            positives.get(qid, ()),
            answers.get(qid, ()),
        )
        for qid, text in texts.items()
    ]


def _known(one: Collection, known: Mapping[str, str], docno: str) -> str:
    if docno not in known:
        raise CollectionError(f"{one.name}: judgments name document {docno!r}, which the set does not have")
    return known[docno]


def _question(query: Query, positives: Iterable[str], answers: Iterable[Answer]) -> Question:
    own = tuple(replace(answer, qid=query.qid) for answer in answers)
    return Question(query, tuple(dict.fromkeys(positives)), tuple(dict.fromkeys(own)))


def _joined(first: Question, other: Question) -> Question:
    answers = (replace(answer, qid=first.query.qid) for answer in other.answers)
    return Question(
        first.query,
        tuple(dict.fromkeys((*first.positives, *other.positives))),
        tuple(dict.fromkeys((*first.answers, *answers))),
    )
