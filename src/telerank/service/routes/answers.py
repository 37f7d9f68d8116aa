"""Answering questions from the documents of an index."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastapi import APIRouter

from telerank.expressions import quote
from telerank.service.depends import CurrentServed, CurrentSnapshot
from telerank.service.errors import ERRORS, Unprocessable
from telerank.service.indexes import READ_DEPTH, ServedIndex
from telerank.service.routes.search import check_query, show_timings
from telerank.service.schemas.answers import AnswerHit, AnswerReply, AnswerRequest, AnswerSource
from telerank.service.schemas.search import ExplanationNode
from telerank.service.searching import AnswerResult, answer_question
from telerank.text.sentences import Span, cover_sentences
from telerank.types import Answer, Explanation

router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@router.post("/answer", summary="Answer a question", response_model_exclude_none=True)
async def answer(served: CurrentServed, snapshot: CurrentSnapshot, request: AnswerRequest) -> AnswerReply:
    """The answers to a question, marked in their documents; none if the documents that are read have none."""
    query = check_query(request.query, served.settings)
    index = snapshot.served_index(request.index)
    stage = index.answers(answering_text(index, request))
    result = await answer_question(served, index, stage, query, k=request.k)
    explanations: list[Explanation | None] = [None] * len(result.answers)
    if request.explain:
        explanations = [
            await served.compute(stage.explain, result.answers.query, each) for each in result.answers
        ]
    no_answer = result.answers.no_answer
    hits = await served.search(_show_answers, result, explanations)
    return AnswerReply(
        query=query,
        index=index.name,
        generation=index.generation,
        pipeline=stage.text,
        milliseconds=sum(timing.milliseconds for timing in result.timings),
        stages=show_timings(result.timings),
        no_answer=no_answer if math.isfinite(no_answer) else None,
        warnings=list(result.warnings) or None,
        answers=hits,
    )


def answering_text(index: ServedIndex, request: AnswerRequest) -> str | None:
    """The text of the pipeline that a request asks for; None: the default one.

    Raises
    ------
    Unprocessable
        If it names no reader and none is served, or a depth for a pipeline that has its own.
    """
    if request.reader is None:
        if request.depth is not None:
            raise Unprocessable("depth: it goes with a reader; a pipeline has its own, such as bm25 % 20")
        return request.pipeline
    first = request.pipeline or index.default
    return f"({first}) % {request.depth or READ_DEPTH} >> read({quote(request.reader)})"


def _show_answers(result: AnswerResult, explanations: Sequence[Explanation | None]) -> list[AnswerHit]:
    """The answers in their sentences, in a thread: long documents take time to split."""
    pairs = zip(result.answers, explanations, strict=True)
    return [_hit(result, answer, explanation) for answer, explanation in pairs]


def _hit(result: AnswerResult, answer: Answer, explanation: Explanation | None) -> AnswerHit:
    doc = result.index.index.doc(answer.docno)
    language = result.stage.reader.reader.settings.language
    start, end = cover_sentences(doc.text, Span(answer.start, answer.end), language)
    return AnswerHit(
        text=answer.text,
        confidence=answer.confidence,
        score=answer.score,
        docno=answer.docno,
        title=doc.title,
        url=doc.url,
        start=answer.start,
        end=answer.end,
        before=doc.text[start : answer.start],
        after=doc.text[answer.end : end],
        sources=[AnswerSource(docno=docno, start=begin) for docno, begin in answer.sources],
        explanation=None if explanation is None else ExplanationNode.of(explanation),
    )
