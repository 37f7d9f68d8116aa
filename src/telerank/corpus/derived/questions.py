"""Merging of question-answering sets into questions over one set of documents, without duplicates.

Splits into train, dev and test with no question, or no paragraph, in two parts.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from telerank.corpus.collection import Collection
from telerank.errors import ArgumentError, CollectionError
from telerank.trec import check_id
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
    """``articles`` has the :func:`article_name` of each document."""

    docs: Mapping[str, Doc]
    questions: tuple[Question, ...]
    tally: MergeTally
    articles: Mapping[str, str]


def merge(
    collections: Sequence[Collection], *, titles: bool = True, progress: Progress = silent
) -> MergedSet:
    """Merge all splits of the collections; ids begin with the name of their set (``piaf-0-3``).

    Of documents with the same text the first is kept. Of questions with the same normalised text (see
    :func:`normalise`) the first is kept, with the positives and answers of all. A question without a relevant
    document (``is_impossible``) is left out. Without ``titles`` documents have none. Everything is held in
    memory.

    Raises CollectionError if names of sets or questions clash, or qrels name a document that a set lacks.
    """
    names = ["_".join(collection.name.split()) for collection in collections]
    for name in names:
        if names.count(name) > 1:
            raise CollectionError(f"two of the sets are named {name!r}: rename a folder or a file")
    docs: dict[str, Doc] = {}
    articles: dict[str, str] = {}
    by_text: dict[str, str] = {}
    questions: dict[str, Question] = {}
    tally = MergeTally()
    for done, (prefix, collection) in enumerate(zip(names, collections, strict=True)):
        progress("reading sets", done, len(collections))
        new_docnos: dict[str, str] = {}
        for doc in collection.docs():
            name = f"{prefix}-{check_id(doc.docno, 'docno', collection.name)}"
            docno = new_docnos[doc.docno] = by_text.setdefault(doc.text, name)
            docs.setdefault(docno, replace(doc, docno=docno, title=doc.title if titles else ""))
            articles.setdefault(docno, article_name(doc, collection.name))
        own = _read_questions(collection, prefix, new_docnos)
        answered = [question for question in own if question.positives]
        for question in answered:
            key = normalise(question.query.text)
            questions[key] = _join(questions.get(key, question), question.positives, question.answers)
        tally.questions += len(own)
        tally.without_positive += len(own) - len(answered)
        tally.documents += len(new_docnos)
    tally.duplicate_questions = tally.questions - tally.without_positive - len(questions)
    tally.duplicate_documents = tally.documents - len(docs)
    return MergedSet(docs, tuple(questions.values()), tally, articles)


def normalise(text: str) -> str:
    """The case-folded words of a text in NFKC, separated by blanks; a text without words stays as it is."""
    return " ".join(WORDS.findall(unicodedata.normalize("NFKC", text).casefold())) or text.strip()


def _read_questions(collection: Collection, prefix: str, new_docnos: Mapping[str, str]) -> list[Question]:
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
    return [
        _join(
            Question(Query(f"{prefix}-{check_id(qid, 'qid', collection.name)}", text), ()),
            positives.get(qid, ()),
            answers.get(qid, ()),
        )
        for qid, text in texts.items()
    ]


def _join(question: Question, positives: Iterable[str], answers: Iterable[Answer]) -> Question:
    """The question with further positives and answers, each once."""
    own = (replace(answer, qid=question.query.qid) for answer in answers)
    return Question(
        question.query,
        tuple(dict.fromkeys((*question.positives, *positives))),
        tuple(dict.fromkeys((*question.answers, *own))),
    )


ArticlePart: TypeAlias = Literal["train", "dev", "test"]
ARTICLE_PARTS: tuple[ArticlePart, ...] = ("train", "dev", "test")
_TAG = re.compile("<[^>]*>")


@dataclass(frozen=True)
class ArticleParts:
    """``test`` and ``dev`` are the shares of articles in these parts, drawn by ``seed``; the rest is train.

    ``only`` one of the parts is written.

    Raises
    ------
    ValueError
        If a share is negative, train has none, or there is no part of the name.
    """

    test: float = 0.2
    dev: float = 0.1
    seed: int = 0
    only: ArticlePart | None = None

    def __post_init__(self) -> None:
        if self.only not in (None, *ARTICLE_PARTS):
            raise ArgumentError(f"only: expected one of {', '.join(ARTICLE_PARTS)}, got {self.only!r}")
        if min(self.test, self.dev) < 0 or self.test + self.dev >= 1:
            raise ArgumentError(
                f"shares of articles leave none for training: test {self.test}, dev {self.dev}"
            )

    def part_of(self, article: str) -> ArticlePart:
        """The part of an article, by its :func:`article_name`."""
        position = int.from_bytes(digest(self.seed, article)[:8], "big") / 2**64
        if position < self.test:
            return "test"
        return "dev" if position < self.test + self.dev else "train"


def plain_title(doc: Doc) -> str:
    """The title of a document without markup, as that of PIAF's ``<i>GoldenEye</i>``."""
    return _TAG.sub("", doc.title)


def article_name(doc: Doc, collection: str) -> str:
    """The title of a document's article without markup, case and punctuation.

    Without a title it is the number of the article in the collection, which the docno ``3-7`` begins with.
    """
    plain = unicodedata.normalize("NFKC", plain_title(doc)).casefold()
    words = "".join(c if c.isalnum() else " " for c in plain).split()
    return " ".join(words) or f"{collection}/{doc.docno.rpartition('-')[0] or doc.docno}"


SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}
PARTS = tuple(SHARES)
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Split:
    """Questions by part and, in a split by paragraph, the part of each document."""

    parts: Mapping[str, tuple[Question, ...]]
    homes: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Leak:
    """The documents that answer a part's questions, and how many of them answer a question of train too."""

    documents: int
    in_train: int


def split_by_question(merged: MergedSet, *, seed: int) -> Split:
    """Split the questions at random, 80/10/10 as in the Piaf report.

    Paragraphs leak: with five questions about a paragraph, nearly every paragraph of the test questions also
    occurs in train; :func:`count_leaks` counts them.
    """
    order = shuffle(merged.questions, lambda question: question.query.qid, seed=seed)
    dev, test = round(len(order) * SHARES["dev"]), round(len(order) * SHARES["test"])
    part = {one.query.qid: "dev" for one in order[:dev]}
    part |= {one.query.qid: "test" for one in order[dev : dev + test]}
    return Split(_group(merged.questions, lambda question: part.get(question.query.qid, "train")))


def split_by_paragraph(merged: MergedSet, *, seed: int) -> Split:
    """Split so that every document belongs to one part only.

    Documents that share a question stay together, with their questions. These groups are assigned in random
    order, each to the part that lacks most questions, so a part misses its share by less than one group.
    """
    homes = _deal_documents(merged.docs, merged.questions, SHARES, seed=seed)
    return Split(_group(merged.questions, lambda question: homes[question.positives[0]]), homes)


def split_by_article(merged: MergedSet, *, seed: int) -> Split:
    """Split by :class:`ArticleParts`: 70/10/20 of the articles, the same in every set with that seed.

    A question about articles of several parts belongs to test, else to dev, with its documents there alone:
    no article of test or dev is learned from.
    """
    parts = ArticleParts(seed=seed)
    homes = {docno: parts.part_of(name) for docno, name in merged.articles.items()}
    grouped: dict[str, list[Question]] = {part: [] for part in ARTICLE_PARTS}
    for question in merged.questions:
        parts_of = {homes[docno] for docno in question.positives}
        part = next(part for part in reversed(ARTICLE_PARTS) if part in parts_of)
        own = tuple(docno for docno in question.positives if homes[docno] == part)
        answers = tuple(answer for answer in question.answers if answer.docno in own)
        grouped[part].append(Question(question.query, own, answers))
    return Split({part: tuple(own) for part, own in grouped.items()}, homes)


def deal_questions(
    questions: Sequence[Question], names: Sequence[str], *, seed: int
) -> Mapping[str, tuple[Question, ...]]:
    """Questions in parts of about one size, so that no document answers questions of two parts.

    Raises CollectionError if a part has none.
    """
    docnos = dict.fromkeys(docno for question in questions for docno in question.positives)
    homes = _deal_documents(docnos, questions, dict.fromkeys(names, 1 / len(names)), seed=seed)
    parts = _group(questions, lambda question: homes[question.positives[0]], names)
    if not all(parts.values()):
        raise CollectionError(
            f"{len(docnos)} documents with questions cannot be dealt into {len(names)} parts"
        )
    return parts


def name_folds(count: int) -> list[str]:
    """The names of ``count`` folds; none of fewer than two."""
    return [f"fold{number}" for number in range(1, count + 1)] if count > 1 else []


def _deal_documents(
    docnos: Iterable[str], questions: Sequence[Question], shares: Mapping[str, float], *, seed: int
) -> dict[str, str]:
    """The part of each document, so that each part has about its share of the questions.

    Documents that share a question are in one part.
    """
    parent = {docno: docno for docno in docnos}

    def root(docno: str) -> str:
        """The document that stands for all that questions connect with this one."""
        while parent[docno] != docno:
            parent[docno] = parent[parent[docno]]
            docno = parent[docno]
        return docno

    for question in questions:
        first = root(question.positives[0])
        for docno in question.positives[1:]:
            parent[root(docno)] = first
    sizes = dict.fromkeys(map(root, parent), 0)
    for question in questions:
        sizes[root(question.positives[0])] += 1
    lacks = {part: share * len(questions) for part, share in shares.items()}
    part_of_group: dict[str, str] = {}
    for group in shuffle(sizes, str, seed=seed):
        part = part_of_group[group] = max(lacks, key=lacks.__getitem__)
        lacks[part] -= sizes[group]
    return {docno: part_of_group[root(docno)] for docno in parent}


def count_leaks(split: Split) -> dict[str, Leak]:
    """The :class:`Leak` of dev and of test."""
    documents = {
        part: {docno for question in questions for docno in question.positives}
        for part, questions in split.parts.items()
    }
    train = documents["train"]
    return {part: Leak(len(own), len(own & train)) for part, own in documents.items() if part != "train"}


def shuffle(items: Iterable[Item], key: Callable[[Item], str], *, seed: int) -> list[Item]:
    """Sort by the SHA-256 of seed and key: independent of the order of ``items`` and of Python's version."""
    return sorted(items, key=lambda item: digest(seed, key(item)))


def digest(seed: int, key: str) -> bytes:
    """The SHA-256 of seed and key."""
    return hashlib.sha256(f"{seed}\n{key}".encode("utf-8", "surrogatepass")).digest()


def _group(
    questions: Sequence[Question], part_of: Callable[[Question], str], names: Sequence[str] = PARTS
) -> Mapping[str, tuple[Question, ...]]:
    parts: dict[str, list[Question]] = {name: [] for name in names}
    for question in questions:
        parts[part_of(question)].append(question)
    return {part: tuple(own) for part, own in parts.items()}
