"""Answering questions from the documents of an index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter
from pydantic import BaseModel, Field

from telerank.corpus.read_fields import show_field
from telerank.expressions import quote
from telerank.service.errors import ERRORS, Unprocessable
from telerank.service.indexes import READ_DEPTH, ServedIndex
from telerank.service.routes.fields import (
    Body,
    CleanText,
    FilterText,
    History,
    IndexName,
    PipelineReply,
    PipelineText,
    QueryText,
    SyntaxName,
)
from telerank.service.routes.search import QuerySyntax, complete_query, read_query, record_run
from telerank.service.searching import QID, StageRun, run_reader
from telerank.service.state import CurrentServed, CurrentSnapshot
from telerank.syntax.reading import ReadQuery
from telerank.text.follow_up import FollowUp
from telerank.text.sentences import Span, cover_sentences
from telerank.types import Answer, Answers, Explanation, Ranking
from telerank.types import Query as SearchQuery

if TYPE_CHECKING:
    from telerank.answers.stage import ReadAnswers


router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


class AnswerRequest(Body):
    """A question."""

    query: QueryText
    history: History = Field(default_factory=list)
    index: IndexName = None
    pipeline: PipelineText = None
    reader: CleanText | None = Field(
        default=None, description="Name of the reader, if the pipeline does not end in read(READER)."
    )
    depth: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Documents that are read, with `reader`; default: 20."
    )
    filter: FilterText = None
    syntax: SyntaxName = "none"
    k: int = Field(3, ge=1, le=1_000, description="Answers, at most.")
    explain: bool = Field(default=False, description="Whether answers have an explanation.")


class AnswerSource(BaseModel):
    """A document that gives the same answer, and the character where it begins there."""

    docno: str
    start: int


class AnswerHit(BaseModel):
    """A span of a document: characters ``start`` to ``end`` (not included) of its text, or of its ``field``.

    ``before`` and ``after`` are the rest of the sentences that it is in.
    """

    text: str
    confidence: float
    score: float
    docno: str
    title: str = ""
    url: str = ""
    field: str = "text"
    start: int
    end: int
    before: str
    after: str
    sources: list[AnswerSource]
    explanation: Explanation | None = None


class AnswerReply(PipelineReply):
    """The answers, best first; none if the documents that were read have none.

    ``no_answer`` is the score of no answer minus that of the best span, in the first document that has a
    span; missing if none has. ``warnings`` say that the question is longer than the reader reads, and how
    many tokens were not read; missing if nothing was cut.
    """

    follow_up: FollowUp | None = None
    syntax: QuerySyntax | None = None
    milliseconds: float
    stages: list[StageRun]
    no_answer: float | None = None
    warnings: list[str] | None = None
    answers: list[AnswerHit]


@router.post("/answer", summary="Answer a question", response_model_exclude_none=True)
async def answer(served: CurrentServed, snapshot: CurrentSnapshot, request: AnswerRequest) -> AnswerReply:
    """The answers to a question, marked in their documents; none if the documents that are read have none."""
    query, completed = complete_query(request.query, request.history, served.settings)
    index = snapshot.served_index(request.index)
    typed = await read_query(served, index, request.syntax, query.text, request.filter)
    if not typed.has_words:
        raise Unprocessable("query: conditions alone are no question: expected words to be answered")
    text = answering_text(index, request)
    stage = index.answers(text, request.filter, typed)
    if stage.first is None:
        raise Unprocessable(f"{stage.text}: expected a first stage before it")
    question = SearchQuery(QID, typed.words)
    read = await served.compute(run_reader, stage % request.k, Ranking(question))
    shown = index.answers(text, request.filter).text
    run = record_run(served, index, shown, query, read.stages)
    explanations: list[Explanation | None] = [None] * len(read.answers)
    if request.explain:
        explain = partial(_explain, stage, question, typed)
        explanations = [await served.compute(explain, each) for each in read.answers]
    hits = await served.search(_show_answers, index, stage, read.answers, explanations)
    no_answer = read.answers.no_answer
    return AnswerReply(
        **run,
        follow_up=completed,
        syntax=QuerySyntax.model_validate(typed.record) if request.syntax == "simple" else None,
        no_answer=no_answer if math.isfinite(no_answer) else None,
        warnings=[read.warning] if read.warning else None,
        answers=hits,
    )


def _explain(stage: ReadAnswers, question: SearchQuery, typed: ReadQuery, answer: Answer) -> Explanation:
    return typed.explain(stage.explain(question, answer), answer.docno)


def answering_text(index: ServedIndex, request: AnswerRequest) -> str | None:
    """The text of the pipeline that a request asks for; None: the default one."""
    if request.reader is None:
        if request.depth is not None:
            raise Unprocessable("depth: it goes with a reader; a pipeline has its own, such as bm25 % 20")
        return request.pipeline
    first = request.pipeline or index.default
    return f"({first}) % {request.depth or READ_DEPTH} >> read({quote(request.reader)})"


def _show_answers(
    index: ServedIndex, stage: ReadAnswers, answers: Answers, explanations: Sequence[Explanation | None]
) -> list[AnswerHit]:
    """The answers in their sentences, in a thread: long documents take time to split."""
    hits, language = [], stage.reader.reader.settings.language
    for answer, explanation in zip(answers, explanations, strict=True):
        doc = show_field(index.index[answer.docno], answer.field)
        start, end = cover_sentences(doc.text, Span(answer.start, answer.end), language)
        more = {
            "end": answer.end,
            "title": doc.title,
            "url": doc.url,
            "before": doc.text[start : answer.start],
            "after": doc.text[answer.end : end],
            "sources": [AnswerSource(docno=docno, start=begin) for docno, begin in answer.sources],
            "explanation": explanation,
        }
        hits.append(AnswerHit(**{**asdict(answer), **more}))
    return hits
