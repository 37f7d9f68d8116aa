"""Merging of question-answering sets into questions over one set of documents, without duplicates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.trec.files import check_id
from telerank.types import Answer, Doc, Progress, Query, silent

WORDS = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the documents that answer it, and its answers as spans of them, if a set has any."""

    query: Query
    positives: tuple[str, ...]
    answers: tuple[Answer, ...] = ()


@dataclass(slots=True)
class MergeTally:
    """Counts over all sets; duplicates are of the text of an earlier question or document."""

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
    """Merge all splits of the collections; ids begin with the name of their set (``piaf-0-3``).

    Of documents with the same text the first is kept. Of questions with the same normalised text (see
    :func:`normalise`) the first is kept, with the positives and answers of all. A question without a relevant
    document (``is_impossible``) is left out. Everything is held in memory.

    Raises CollectionError if names of sets or questions clash, or qrels name a document that a set lacks.
    """
    names = [_prefix(collection) for collection in collections]
    for name in names:
        if names.count(name) > 1:
            raise CollectionError(f"two of the sets are named {name!r}: rename a folder or a file")
    docs: dict[str, Doc] = {}
    by_text: dict[str, str] = {}
    questions: dict[str, Question] = {}
    tally = MergeTally()
    for done, collection in enumerate(collections):
        progress("reading sets", done, len(collections))
        new_docnos = _add_docs(collection, docs, by_text)
        own = _read_questions(collection, new_docnos)
        answered = [question for question in own if question.positives]
        for question in answered:
            key = normalise(question.query.text)
            first = questions.get(key, question)
            questions[key] = _join(first, question.positives, question.answers)
        tally.questions += len(own)
        tally.without_positive += len(own) - len(answered)
        tally.documents += len(new_docnos)
    tally.duplicate_questions = tally.questions - tally.without_positive - len(questions)
    tally.duplicate_documents = tally.documents - len(docs)
    return MergedSet(docs, tuple(questions.values()), tally)


def normalise(text: str) -> str:
    """The case-folded words of a text in NFKC, separated by blanks; a text without words stays as it is."""
    return " ".join(WORDS.findall(unicodedata.normalize("NFKC", text).casefold())) or text.strip()


def _prefix(collection: Collection) -> str:
    """The collection's name without blanks, as a part of ids."""
    return "_".join(collection.name.split())


def _add_docs(collection: Collection, docs: dict[str, Doc], by_text: dict[str, str]) -> dict[str, str]:
    """Add new documents to ``docs``; returns the docno there of every docno of the collection."""
    new_docnos: dict[str, str] = {}
    for doc in collection.docs():
        own = f"{_prefix(collection)}-{check_id(doc.docno, 'docno', collection.name)}"
        docno = new_docnos[doc.docno] = by_text.setdefault(doc.text, own)
        if docno not in docs:
            docs[docno] = replace(doc, docno=docno)
    return new_docnos


def _read_questions(collection: Collection, new_docnos: Mapping[str, str]) -> list[Question]:
    """The questions of all splits of a collection, also those without a positive."""
    if not collection.queries:
        raise CollectionError(f"{collection.name} has no questions")

    def new_docno(docno: str) -> str:
        if docno not in new_docnos:
            problem = f"judgments name document {docno!r}, which the set does not have"
            raise CollectionError(f"{collection.name}: {problem}")
        return new_docnos[docno]

    texts: dict[str, str] = {}
    positives: dict[str, list[str]] = {}
    answers: dict[str, list[Answer]] = {}
    for split in collection.splits:
        for query in collection.queries.get(split, tuple)():
            if texts.setdefault(query.qid, query.text) != query.text:
                problem = f"{query.qid!r} is another question in split {split!r}"
                raise CollectionError(f"{collection.name}: {problem}")
        for qrel in collection.qrels.get(split, tuple)():
            if qrel.grade >= collection.relevant_from:
                positives.setdefault(qrel.qid, []).append(new_docno(qrel.docno))
        for answer in collection.answers.get(split, tuple)():
            answers.setdefault(answer.qid, []).append(
                replace(answer, docno=new_docno(answer.docno), sources=())
            )
    queries = {
        qid: Query(f"{_prefix(collection)}-{check_id(qid, 'qid', collection.name)}", text)
        for qid, text in texts.items()
    }
    return [
        _join(Question(query, ()), positives.get(qid, ()), answers.get(qid, ()))
        for qid, query in queries.items()
    ]


def _join(question: Question, positives: Iterable[str], answers: Iterable[Answer]) -> Question:
    """The question with further positives and answers, each once."""
    own = (replace(answer, qid=question.query.qid) for answer in answers)
    return Question(
        question.query,
        tuple(dict.fromkeys((*question.positives, *positives))),
        tuple(dict.fromkeys((*question.answers, *own))),
    )
