"""Answering questions: a reader, the stage that ends a pipeline with it, its answers to many questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telerank.computing import Count
from telerank.corpus.collection import Collection
from telerank.corpus.read_fields import TEXT, show_field
from telerank.errors import ArgumentError, CollectionError, ExpressionError
from telerank.model_names import READER, require_default
from telerank.pipelines.functions import Reading, answer_pipeline, ends_in_read, pipeline
from telerank.retrieval.index import Index
from telerank.retrieval.model_sources import locate_model
from telerank.show.progress import show_progress
from telerank.stage import Stage, change_stages
from telerank.text.sentences import Span, cover_sentences
from telerank.types import Answer, Answers, ProgressSetting
from telerank.verbs.search import Queries, open_queries, read_queries

if TYPE_CHECKING:
    from telerank.answers.scorer import SpanReader
    from telerank.answers.stage import AnswerRun, ReadAnswers
    from telerank.models.readers import Reader
    from telerank.types import Docs

__all__ = ["AnswerSentence", "answer", "in_sentence", "open_answers", "read", "reader"]

NO_TEXTS = "expected texts, the documents: an index, a collection, a docstore, or texts by docno"
DEPTH = 20
"""Documents that are read for a question, unless a pipeline says otherwise."""
_BATCH = 64  # queries answered at a time


def reader(model: str | Path | Reader = READER, **settings: Reading) -> SpanReader:
    """A reader of texts, by its name (a folder, a name on the hub), or a loaded one.

    By default it is the French and English one that comes with telerank (extra ``e5``).
    ``settings`` are those of :class:`~telerank.answers.scorer.SpanReader`: ``backend``, ``precision``,
    ``threshold``, ``max_answer``, ….

    >>> tr.reader("my-reader").answer("Qui a inventé l'imprimerie ?", ["Gutenberg l'a inventée vers 1450."])

    Raises
    ------
    ModelError
        If there is no such reader, back end or precision.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    if model == READER:
        require_default(READER)
    from telerank.answers.scorer import SpanReader

    return SpanReader(locate_model(str(model)) if isinstance(model, str | Path) else model, **settings)


def read(
    model: str | Path | Reader | SpanReader = READER,
    texts: Index | Collection | Docs | Mapping[str, str] | None = None,
    *,
    mu: float | None = None,
    field: str = TEXT,
    **settings: Reading,
) -> ReadAnswers:
    """The stage that reads the documents of rankings, and ends a pipeline: it gives answers, not rankings.

    ``texts`` has the documents: an index, a collection (whose documents are then held in memory), a
    docstore, or a mapping of texts by docno. ``model`` is by default the French and English reader that comes
    with telerank (extra ``e5``). Over several texts a score is mu * span + (1 - mu) * retriever,
    both scaled to [0, 1], with a ``mu`` of 0.8 unless it is given; with 1, and where a ranking has one
    document or equal scores, it is that of the span alone. ``field`` is read of a document: its text, its
    title, or a column of texts. ``settings`` are those of :class:`~telerank.answers.scorer.SpanReader`.

    >>> answers = index.bm25() % 20 >> tr.rerank("my-reranker", index) % 5 >> tr.read("my-reader", index) % 3
    >>> answers.answer("Qui a inventé l'imprimerie ?")

    Raises
    ------
    ModelError
        If there is no such reader, back end or precision.
    ArgumentError
        If the documents have no such field.
    MissingExtra
        If torch or the package of the back end is not installed.
    """
    if texts is None:
        raise ArgumentError(f"read: {NO_TEXTS}")
    if model == READER:
        require_default(READER)
    from telerank.answers.scorer import SpanReader
    from telerank.answers.stage import ReadAnswers

    folder = texts.folder if isinstance(texts, Index) else None
    source = locate_model(str(model), index=folder) if isinstance(model, str | Path) else model
    opened = source if isinstance(source, SpanReader) else SpanReader(source, **settings)
    if isinstance(texts, Index):
        name = str(model) if isinstance(model, str | Path) else ""
        return ReadAnswers(opened, texts.docs, mu, name=name, field=field)
    docs = {doc.docno: doc for doc in texts.docs()} if isinstance(texts, Collection) else texts
    return ReadAnswers(opened, docs, mu, field=field)


def answer(
    index: Index | str | Path,
    queries: Queries,
    model: ReadAnswers | Stage | str | None = None,
    *,
    reader: str | Path | Reader | SpanReader | None = None,
    split: str | None = None,
    where: str | None = None,
    k: Count | None = None,
    depth: Count | None = None,
    mu: float | None = None,
    field: str | None = None,
    threads: Count = 1,
    progress: ProgressSetting = None,
    **settings: Reading,
) -> AnswerRun:
    """Answer questions from the documents of an index: those of a collection's split, or in memory.

    ``queries`` are of any shape that :func:`telerank.search` takes.
    ``model`` is a pipeline or its text. If it does not end in ``read(READER)``, its first ``depth`` (20)
    documents are read by ``reader``, by default the one that comes with telerank (extra ``e5``), with ``mu``,
    ``field`` and ``settings`` as :func:`read` takes them. ``where`` is a filter of documents by their columns
    (:mod:`telerank.columns.filters`): others are not read. ``k`` answers are kept for each question.
    ``threads`` answer the queries of first stages. The answers are computed when they are read or saved.

    >>> tr.answer("idx", "piaf", reader="my-reader", k=3).save("predictions.json")

    Raises
    ------
    ExpressionError
        If the text of the pipeline cannot be read, it has a reader and another or a depth is given, or
        nothing ranks before it.
    MissingExtra
        If no reader is named, and the extra is not installed.
    CollectionError
        If there is no such collection or split, it has no query, or a qid comes twice.
    """
    from telerank.answers.stage import AnswerRun

    opened = Index(index) if isinstance(index, str | Path) else index
    own: dict[str, Any] = settings if field is None else {**settings, "field": field}
    stage = open_answers(opened, model, reader, depth=depth, mu=mu, **own)
    stage = stage if where is None else stage.where(where)
    stage = stage if k is None else stage % k
    first = stage.first
    batched = stage
    if first is not None:
        batched = stage.behind(change_stages(first, lambda part: part.in_batches(_BATCH, threads)))
    source, query_list = read_queries(open_queries(queries), split)

    def compute() -> Iterator[Answers]:
        with show_progress(progress, len(query_list)) as shown:
            for number, answers in enumerate(batched.run(query_list), 1):
                shown("answering", number, len(query_list))
                yield answers

    def record() -> dict[str, object]:
        remarks = {"remarks": [*batched.remarks]} if batched.remarks else {}
        sources = {"sources": dict(stage.sources)}
        return {"pipeline": stage.text, "queries": source, "split": split, **sources, **remarks}

    return AnswerRun(compute, record, lambda: batched.remarks)


def open_answers(
    index: Index,
    model: ReadAnswers | Stage | str | None,
    reader: str | Path | Reader | SpanReader | None,
    *,
    depth: int | None = None,
    mu: float | None = None,
    **settings: Any,
) -> ReadAnswers:
    """The pipeline that :func:`answer` runs, of which the default is ``bm25 % 20 >> read``.

    Raises
    ------
    ExpressionError
        If the text cannot be read, there are two readers, or one and a depth, or nothing ranks before it.
    MissingExtra
        If no reader is named, and the extra is not installed.
    """
    from telerank.answers.stage import ReadAnswers

    text = model if isinstance(model, str) else None
    if isinstance(model, ReadAnswers) or (text is not None and ends_in_read(text)):
        if settings or any(value is not None for value in (reader, depth, mu)):
            raise ExpressionError(
                f"{model}: it has a reader, and takes no other one, no settings of one and no depth"
            )
        stage = model if isinstance(model, ReadAnswers) else answer_pipeline(str(text), index)
        if stage.first is None:
            raise ExpressionError(
                f"{stage.text}: nothing ranks what it reads, as in bm25 % {DEPTH} >> read(READER)"
            )
        return stage
    first = model if isinstance(model, Stage) else pipeline(text or index.default_pipeline, index)
    return first % (DEPTH if depth is None else depth) >> read(reader or READER, index, mu=mu, **settings)


@dataclass(frozen=True)
class AnswerSentence:
    """An answer in the sentences that it stands in: what is before it, itself, what is behind, the title."""

    before: str
    text: str
    after: str
    title: str


def in_sentence(index: Index, answer: Answer, language: str = "en") -> AnswerSentence:
    """The sentence of an answer, or the sentences if it stands in several; without blanks at its ends.

    Raises
    ------
    CollectionError
        If the document has another text now.
    """
    doc = show_field(index[answer.docno], answer.field)
    if doc.text[answer.start : answer.end] != answer.text:
        raise CollectionError(
            f"document {answer.docno!r} has changed: it has no {answer.text!r} at {answer.start}"
        )
    start, end = cover_sentences(doc.text, Span(answer.start, answer.end), language)
    before, after = doc.text[start : answer.start], doc.text[answer.end : end]
    return AnswerSentence(before, answer.text, after, doc.title)
