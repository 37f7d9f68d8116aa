"""Questions of several sets with the texts that are read for them, for training and for measuring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.derived.questions import ArticleParts, article_name, digest, shuffle
from telerank.corpus.formats import open_collection
from telerank.errors import CollectionError
from telerank.evaluation.answers.measures import GoldAnswers
from telerank.training.reader.config import ArticleShares, QuestionSource
from telerank.types import Answer, Doc, Progress, Query, silent

REPAIRED = ("answers moved", "answers nearest")
"""Counts of answers that stand elsewhere than the files say: at their only place, or at the nearest one."""


@dataclass(frozen=True)
class TextQuestion:
    """A question about a text, with its correct answers there; ``unrelated``: the text is of another
    article.
    """

    query: Query
    doc: Doc
    answers: tuple[Answer, ...] = ()
    unrelated: bool = False


@dataclass(frozen=True)
class QuestionSet:
    """The questions of a set.

    ``counts`` has how much was read and left out. ``left_out`` are questions that have only answers which do
    not occur in their text.
    """

    source: QuestionSource
    questions: tuple[TextQuestion, ...]
    counts: dict[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def gold(self) -> GoldAnswers:
        """The questions' gold answers; those about unrelated texts are left out."""
        own = [question for question in self.questions if not question.unrelated]
        answers = (answer for question in own for answer in question.answers)
        return GoldAnswers.of((question.query for question in own), answers)


def read_questions(
    source: QuestionSource, articles: ArticleShares, seed: int, progress: Progress = silent
) -> QuestionSet:
    """The questions of a set, those of one part if it names one, in the order of the collection.

    A question whose text is not known, as it has neither answer nor context, is left out and counted.

    Raises CollectionError if the collection has no answers, or no question is left.
    """
    collection = open_collection(source.collection, format=source.format, encoding=source.encoding)
    progress("reading questions", 0, None)
    counts: dict[str, int] = {}
    selected, left_out = (
        _of_part(questions, collection.name, source, articles)
        for questions in _read(collection, source, counts)
    )
    if left_out:
        counts["questions whose answer does not occur"] = len(left_out)
    if not source.unanswerable:
        selected = [question for question in selected if question.answers]
    if source.questions is not None:
        kept = {question.query.qid for question in shuffle(selected, _qid, seed=seed)[: source.questions]}
        selected = [question for question in selected if question.query.qid in kept]
    if not selected:
        part = f" of the part {source.part!r}" if source.part else ""
        raise CollectionError(f"{collection.name}: no question{part} can be read")
    counts = {"questions": len(selected), "without an answer": sum(not q.answers for q in selected), **counts}
    counts |= _count_moved(collection, source, selected)
    added = []
    if source.unrelated:
        texts = _unrelated_texts(selected, source, articles)
        added = list(_add_unrelated(selected, texts, source.unrelated, seed))
        counts["unrelated texts"] = len(added)
    return QuestionSet(
        source, (*selected, *added), {key: n for key, n in counts.items() if n}, tuple(map(_qid, left_out))
    )


def _read(
    collection: Collection, source: QuestionSource, counts: dict[str, int]
) -> tuple[list[TextQuestion], list[TextQuestion]]:
    """The questions of a split, and those of which no answer occurs in their text."""
    split = collection.resolve_split(source.split)
    parts = split_parts(split)
    if not any(part in collection.answers for part in parts):
        raise CollectionError(f"{collection.name}: split {split!r} has no answers to learn from")
    docs = {doc.docno: doc for doc in collection.docs()}
    located: dict[str, list[Answer]] = {}
    for part in parts:
        for answer in collection.answers.get(part, tuple)():
            located.setdefault(answer.qid, []).append(answer)
    absent = {
        answer.qid: answer.docno for part in parts for answer in collection.unlocated.get(part, tuple)()
    }
    texts = absent | {qid: own[0].docno for qid, own in located.items()}
    for part in parts:
        texts |= collection.contexts.get(part, dict)()
    selected, left_out = [], []
    for query in collection.split_queries(split):
        docno = texts.get(query.qid)
        own = tuple(answer for answer in located.get(query.qid, ()) if answer.docno == docno)
        if docno is None or docno not in docs:
            counts["questions without a text"] = counts.get("questions without a text", 0) + 1
        elif query.qid in absent and not own:
            left_out.append(TextQuestion(query, docs[docno]))
        else:
            selected.append(TextQuestion(query, docs[docno], own))
    return selected, left_out


def _count_moved(
    collection: Collection, source: QuestionSource, selected: Sequence[TextQuestion]
) -> dict[str, int]:
    """How many answers of these questions stand elsewhere than the files say, at their only place or not."""
    texts = {answer: question.doc.text for question in selected for answer in question.answers}
    counts = dict.fromkeys(REPAIRED, 0)
    for part in split_parts(collection.resolve_split(source.split)):
        for answer in collection.moved.get(part, tuple)():
            if text := texts.get(answer):
                is_only = text.find(answer.text, text.find(answer.text) + 1) < 0
                counts[REPAIRED[0 if is_only else 1]] += 1
    return counts


def _of_part(
    selected: list[TextQuestion], collection: str, source: QuestionSource, articles: ArticleShares
) -> list[TextQuestion]:
    if source.part is None:
        return selected
    parts = ArticleParts(articles.test, articles.dev, articles.seed)
    return [
        question
        for question in selected
        if parts.part_of(article_name(question.doc, collection)) == source.part
    ]


def _add_unrelated(
    selected: Sequence[TextQuestion], texts: Mapping[str, list[Doc]], share: float, seed: int
) -> Iterator[TextQuestion]:
    """Questions with a text of another article that has none of their answers; ``texts`` are by article."""
    docs = [(article, doc) for article, own in texts.items() for doc in own]
    answerable = [question for question in selected if question.answers]
    for question in shuffle(answerable, _qid, seed=seed)[: round(share * len(answerable))]:
        first = int.from_bytes(digest(seed, f"unrelated {_qid(question)}")[:8], "big")
        own = article_name(question.doc, "")
        for step in range(len(docs)):
            article, doc = docs[(first + step) % len(docs)]
            text = doc.text.casefold()
            if article != own and not any(answer.text.casefold() in text for answer in question.answers):
                yield TextQuestion(question.query, doc, unrelated=True)
                break


def _unrelated_texts(
    selected: Sequence[TextQuestion], source: QuestionSource, articles: ArticleShares
) -> dict[str, list[Doc]]:
    """The texts that unrelated ones are drawn from, by article: those of the questions, or of another set."""
    if source.unrelated_from is None:
        docs = list({question.doc.docno: question.doc for question in selected}.values())
    else:
        parts = ArticleParts(articles.test, articles.dev, articles.seed)
        other = open_collection(source.unrelated_from)
        docs = [
            doc for doc in other.docs() if source.part in (None, parts.part_of(article_name(doc, other.name)))
        ]
    texts: dict[str, list[Doc]] = {}
    for doc in docs:
        texts.setdefault(article_name(doc, ""), []).append(doc)
    if len(texts) < 2:
        where = source.unrelated_from or source.collection
        raise CollectionError(f"{where}: unrelated texts need a second article, and it has {len(texts)}")
    return texts


def describe_left_out(sets: Iterable[QuestionSet]) -> list[str]:
    """A line for each set with questions whose answer does not occur in their text, which names them all."""
    lines = []
    for own in sets:
        if own.left_out:
            named = ", ".join(own.left_out)
            number = f"{len(own.left_out)} questions are left out"
            lines.append(f"{own.source.collection}: {number}, as no answer occurs in their text: {named}")
    return lines


def _qid(question: TextQuestion) -> str:
    return question.query.qid
