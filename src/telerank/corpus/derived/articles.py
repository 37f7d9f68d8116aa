"""Articles of question-answering sets: long documents of their paragraphs, and parts with whole articles.

SQuAD-style sets ask about paragraphs and know where the answer stands. Joined to its article, a paragraph is
a part of a long document whose relevant text is known to the character: which segment a model should choose
is known, too.

- An article is a document: its paragraphs, separated by a blank line, in the order of the file. Its title is
  the article's, with blanks for the underscores of Wikipedia's names.
- An article whose title an earlier set has (XQuAD's are SQuAD's) is left out with its questions.
- Sets are merged as ranking sets are (:func:`telerank.corpus.derived.questions.merge`): a paragraph, or a
  question, that comes twice is one. Questions without an answer (SQuAD 2.0) are left out.
- Articles of ``least_words`` words or fewer are joined, in their order, to documents of more: their titles
  become one, separated by semicolons, and their questions are asked like those of the others. If short
  articles stayed alone and nobody asked about them, their length would say which documents are relevant.
- Questions are dealt into folds by article, so that no article is asked about in two.

In train, dev and test the part of an article depends on its title and a seed alone, so an article that
several sets have is in the same part of all of them: XQuAD and SQuAD share articles, questions and
paragraphs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from telerank.corpus.collection import Collection
from telerank.corpus.derived.questions import (
    ARTICLE_PARTS,
    ArticlePart,
    ArticleParts,
    MergedSet,
    Question,
    article_name,
    deal_questions,
    merge,
    name_folds,
    normalise,
)
from telerank.corpus.readers.squad import SQUAD
from telerank.corpus.reading import Stream
from telerank.corpus.writing import ALIGNED, LongDocument, LongDocuments
from telerank.drafts import draft_folder
from telerank.errors import ArgumentError, CollectionError, count_noun
from telerank.types import Answer, Doc, Progress, Qrel, Query, silent

# What stands between two paragraphs of a document.
BETWEEN = "\n\n"
# Of the recipe: sets that were made otherwise are made again (1 had short articles as distractors).
VERSION = 2
Kept = TypeVar("Kept", Doc, Qrel, Answer)


@dataclass(frozen=True, slots=True)
class ArticleSettings:
    """How articles become documents; ValueError if a number makes no sense.

    ``least_words``: each document has more words; shorter articles are joined. ``folds`` are the splits
    ``fold1``, ``fold2``, …; one fold is the split ``all``.
    """

    least_words: int = 0
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.least_words < 0 or self.folds < 1:
            raise ArgumentError(
                f"least_words from 0 on and folds from 1 on, got {self.least_words}, {self.folds}"
            )


def join_articles(
    collections: Sequence[Collection], settings: ArticleSettings, *, progress: Progress = silent
) -> LongDocuments:
    """Join the paragraphs of question-answering sets to documents with answers.

    Raises
    ------
    CollectionError
        If a set is not SQuAD-style, the sets cannot be merged, all short articles together have too few
        words, or fewer documents are asked about than there are folds.
    """
    for collection in collections:
        if collection.format != SQUAD.name:
            raise CollectionError(
                f"{collection.name} is of the format {collection.format}: only {SQUAD.name} has articles"
            )
    kept, repeated = leave_out_repeated(collections)
    merged = merge(kept, progress=progress)
    articles, joined = _join_short(_group_paragraphs(merged), settings.least_words)
    docs, begins = _join_paragraphs(articles)
    questions = tuple(_move(question, begins) for question in merged.questions)
    folds = deal_questions(questions, name_folds(settings.folds) or ["all"], seed=settings.seed)
    record = {
        "recipe": {"kind": "articles", "version": VERSION, **asdict(settings)},
        "sources": [collection.provenance for collection in collections],
        "joined": joined,
        "left_out": {
            "articles_of_an_earlier_set": repeated,
            "questions_without_answer": merged.tally.without_positive,
            "duplicate_questions": merged.tally.duplicate_questions,
            "duplicate_paragraphs": merged.tally.duplicate_documents,
        },
        "offsets": count_offsets(collections),
    }
    return LongDocuments(
        partial(_documents, docs, questions),
        {fold: tuple(question.query for question in own) for fold, own in folds.items()},
        len(docs),
        record,
    )


def count_offsets(collections: Sequence[Collection]) -> dict[str, int]:
    """How many answers of the sets stand at their offset, were moved to where they stand, or are absent."""
    notes = [collection.notes() for collection in collections]
    return {name: sum(note.get(name, 0) for note in notes) for name in ("answers", *ALIGNED)}


def leave_out_repeated(collections: Sequence[Collection]) -> tuple[list[Collection], int]:
    """The sets without the articles whose title an earlier one has, and the number of these articles.

    Titles are compared by their words; articles without a title are all kept.
    """
    known: set[str] = set()
    kept, repeated = [], 0
    for collection in collections:
        titles = {article_of(doc.docno): title_words(doc.title) for doc in collection.docs()}
        out = {article for article, title in titles.items() if title and title in known}
        known.update(titles.values())
        repeated += len(out)
        kept.append(_without(collection, out) if out else collection)
    return kept, repeated


def article_of(docno: str) -> str:
    """The article of a paragraph of the format SQuAD: ``3`` for ``3-7``."""
    return docno.rpartition("-")[0]


def title_words(title: str) -> str:
    """The words of a title, by which articles are compared."""
    return normalise(title.replace("_", " "))


def _without(collection: Collection, articles: set[str]) -> Collection:
    def keep(records: Stream[Kept]) -> Iterator[Kept]:
        """The documents, qrels or answers of the other articles."""
        return (record for record in records() if article_of(record.docno) not in articles)

    def queries(split: str) -> Iterator[Query]:
        out = {qrel.qid for qrel in collection.qrels[split]() if article_of(qrel.docno) in articles}
        return (query for query in collection.queries[split]() if query.qid not in out)

    return replace(
        collection,
        docs=partial(keep, collection.docs),
        queries={split: partial(queries, split) for split in collection.queries},
        qrels={split: partial(keep, qrels) for split, qrels in collection.qrels.items()},
        answers={split: partial(keep, answers) for split, answers in collection.answers.items()},
    )


def _group_paragraphs(merged: MergedSet) -> list[list[Doc]]:
    """The paragraphs of each article, in the order of the sets."""
    articles: dict[str, list[Doc]] = {}
    for doc in merged.docs.values():
        articles.setdefault(article_of(doc.docno), []).append(doc)
    return [*articles.values()]


def _join_short(articles: Sequence[list[Doc]], least_words: int) -> tuple[list[list[Doc]], dict[str, int]]:
    """The paragraphs of each document of more than ``least_words`` words, and how many articles were joined.

    The short articles that are left over at the end are joined to the last document of such articles.
    """
    documents: list[list[Doc]] = []
    short: list[list[Doc]] = []  # documents of short articles; the last one may grow
    words = least_words + 1  # of that document
    count = 0
    for article in articles:
        own = sum(len(paragraph.text.split()) for paragraph in article)
        if own > least_words:
            documents.append(article)
            continue
        count += 1
        if words > least_words:
            short.append([])
            documents.append(short[-1])
            words = 0
        short[-1] += article
        words += own
    if words <= least_words:
        if len(short) < 2:
            of_short = f"the {count_noun(count, 'article')} of at most {least_words:,} words"
            raise CollectionError(
                f"{of_short} have {words:,} together: too few to be joined to a document of more; "
                f"least_words must be below {words:,}"
            )
        last = short.pop()
        documents = [document for document in documents if document is not last]
        short[-1] += last
    return documents, {"short_articles": count, "documents": len(short)}


def _join_paragraphs(articles: Sequence[list[Doc]]) -> tuple[dict[str, Doc], dict[str, tuple[str, int]]]:
    """Documents by docno, and for each paragraph its document and where it begins there."""
    begins, docs = {}, {}
    for own in articles:
        docno = article_of(own[0].docno)
        lengths = (len(paragraph.text) + len(BETWEEN) for paragraph in own)
        for paragraph, begin in zip(own, accumulate(lengths, initial=0), strict=False):
            begins[paragraph.docno] = docno, begin
        titles = dict.fromkeys(paragraph.title.replace("_", " ") for paragraph in own)
        docs[docno] = Doc(
            docno, BETWEEN.join(paragraph.text for paragraph in own), "; ".join(filter(None, titles))
        )
    return docs, begins


def _move(question: Question, begins: Mapping[str, tuple[str, int]]) -> Question:
    """The question with its paragraphs and answers moved to their documents."""
    positives = dict.fromkeys(begins[docno][0] for docno in question.positives)
    answers = []
    for answer in question.answers:
        docno, begin = begins[answer.docno]
        answers.append(replace(answer, docno=docno, start=begin + answer.start, sources=()))
    return Question(question.query, tuple(positives), tuple(answers))


def _documents(docs: Mapping[str, Doc], questions: Sequence[Question]) -> Iterator[LongDocument]:
    questions_of: dict[str, list[Question]] = {docno: [] for docno in docs}
    for question in questions:
        for docno in question.positives:
            questions_of[docno].append(question)
    for docno, doc in docs.items():
        answers = (answer for question in questions_of[docno] for answer in question.answers)
        qids = tuple(question.query.qid for question in questions_of[docno])
        yield LongDocument(doc, qids, tuple(answer for answer in answers if answer.docno == docno))


_RECIPE = "parts.recipe"


def write_parts(collections: Sequence[Collection], parts: ArticleParts, folder: Path) -> None:
    """Write the questions of all splits of question-answering sets as one SQuAD-style set, a file for each
    part, or for ``parts.only``.

    Each paragraph is in the part of its article, those without a question, too; docnos begin with the part.
    Questions of several collections keep their ids, so they must differ.

    Raises CollectionError if a question comes twice, or its paragraph is not known.
    """
    articles: dict[ArticlePart, dict[str, list[dict[str, Any]]]] = {part: {} for part in ARTICLE_PARTS}
    titles: dict[str, str] = {}
    known: set[str] = set()
    for collection in collections:
        by_docno = _read_asked(collection, known)
        for doc in collection.docs():
            name = article_name(doc, collection.name)
            titles.setdefault(name, doc.title)
            articles[parts.part_of(name)].setdefault(name, []).append(
                {"context": doc.text, "qas": by_docno.pop(doc.docno, [])}
            )
        if by_docno:
            raise CollectionError(
                f"{collection.name}: no document {min(by_docno)!r}, which questions are about"
            )
    with draft_folder(folder) as draft:
        for part, own in articles.items():
            data = [{"title": titles[name], "paragraphs": paragraphs} for name, paragraphs in own.items()]
            if data and parts.only in (None, part):
                (draft / f"{part}.json").write_text(
                    json.dumps({"version": "2.0", "data": data}, ensure_ascii=False), encoding="utf-8"
                )
        (draft / _RECIPE).write_text(json.dumps(asdict(parts)), encoding="utf-8")


def is_parted_by(folder: Path, parts: ArticleParts) -> bool:
    """Whether the folder has what :func:`write_parts` writes with these shares and this seed."""
    recipe = folder / _RECIPE
    return recipe.is_file() and json.loads(recipe.read_text("utf-8")) == asdict(parts)


def _read_asked(collection: Collection, known: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The questions about each document, as SQuAD's file has them."""
    by_docno: dict[str, list[dict[str, Any]]] = {}
    for split, queries in collection.queries.items():
        contexts = collection.contexts.get(split, dict)()
        answers: dict[str, list[dict[str, Any]]] = {}
        for stream in (collection.answers, collection.unlocated):
            for answer in stream.get(split, tuple)():
                record = {"text": answer.text, "answer_start": answer.start}
                answers.setdefault(answer.qid, []).append(record)
        for query in queries():
            if query.qid in known:
                raise CollectionError(f"{collection.name}: the question {query.qid!r} comes twice")
            if query.qid not in contexts:
                raise CollectionError(
                    f"{collection.name}: the paragraph of question {query.qid!r} is not known"
                )
            known.add(query.qid)
            own = answers.get(query.qid, [])
            record = {"id": query.qid, "question": query.text, "answers": own, "is_impossible": not own}
            by_docno.setdefault(contexts[query.qid], []).append(record)
    return by_docno
