"""Searching an index, and explaining a score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from telerank.errors import ExpressionError
from telerank.service.costs import uses_models
from telerank.service.depends import CurrentServed, CurrentSnapshot
from telerank.service.errors import ERRORS, BadRequest, NotServed, Unprocessable
from telerank.service.page.highlight import find_matches, query_terms, snippet
from telerank.service.schemas.search import (
    ExplainParameters,
    ExplainReply,
    ExplainRequest,
    ExplanationNode,
    HighlightedTerm,
    Hit,
    HitSegment,
    SearchParameters,
    SearchReply,
    SearchRequest,
    Snippet,
    Timing,
)
from telerank.service.searching import (
    QID,
    SearchResult,
    StageTiming,
    check_page,
    observe,
    rank_page,
    refuse_values,
)
from telerank.service.settings import ServiceSettings
from telerank.service.state import Served
from telerank.stage import Stage
from telerank.types import Explanation
from telerank.types import Query as SearchQuery

router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@router.get("/search", summary="Search", response_model_exclude_none=True)
async def search_by_url(
    served: CurrentServed, snapshot: CurrentSnapshot, request: Annotated[SearchParameters, Query()]
) -> SearchReply:
    """A page of the ranking of a query."""
    return await search(served, snapshot, request)


@router.post("/search", summary="Search", response_model_exclude_none=True)
async def search(served: CurrentServed, snapshot: CurrentSnapshot, request: SearchRequest) -> SearchReply:
    """A page of the ranking of a query."""
    query = check_query(request.query, served.settings)
    index = snapshot.served_index(request.index)
    stage = index.pipeline(request.pipeline)
    check_page(served.settings, request.k, request.page)
    rank = partial(rank_page, index, stage, query, request.k, request.page)
    if request.explain or request.segment or uses_models(stage):
        result = await served.run_stage(stage, rank)
        details = await _details(served, request, result)
        hits = await served.search(_show_hits, request, result, details)
    else:
        result, hits = await served.search(_rank_and_show, request, rank)
    observe(served, result, query)
    timings = result.timings
    return SearchReply(
        query=query,
        index=index.name,
        generation=index.generation,
        pipeline=stage.text,
        page=request.page,
        k=request.k,
        more=result.more,
        milliseconds=sum(timing.milliseconds for timing in timings),
        stages=show_timings(timings),
        hits=hits,
    )


@router.get("/explain", summary="Explain a score")
async def explain_by_url(
    served: CurrentServed, snapshot: CurrentSnapshot, request: Annotated[ExplainParameters, Query()]
) -> ExplainReply:
    """Why a document has the score that a pipeline gives it for a query."""
    return await explain(served, snapshot, request)


@router.post("/explain", summary="Explain a score")
async def explain(served: CurrentServed, snapshot: CurrentSnapshot, request: ExplainRequest) -> ExplainReply:
    """Why a document has the score that a pipeline gives it for a query."""
    query = check_query(request.query, served.settings)
    index = snapshot.served_index(request.index)
    stage = index.pipeline(request.pipeline)
    explanation = await served.run_stage(stage, explain_score, stage, query, request.docno)
    return ExplainReply(
        query=query,
        index=index.name,
        generation=index.generation,
        pipeline=stage.text,
        docno=request.docno,
        explanation=ExplanationNode.of(explanation),
    )


def check_query(query: str, settings: ServiceSettings) -> str:
    """The query without blanks at its ends.

    Raises
    ------
    BadRequest
        If nothing is left.
    Unprocessable
        If it is too long.
    """
    text, most = query.strip(), settings.limits.query_characters
    if not text:
        raise BadRequest("query: it is empty")
    if len(text) > most:
        raise Unprocessable(f"query: at most {most:,} characters, got {len(text):,}")
    return text


def explain_score(stage: Stage, query: str, docno: str) -> Explanation:
    """Why the document has its score; raises NotServed if the pipeline gives it none."""
    try:
        return refuse_values(lambda: stage.explain(SearchQuery(QID, query), docno))
    except KeyError as error:
        raise NotServed(f"no document {docno!r} to which the pipeline gives a score") from error


def show_timings(timings: Sequence[StageTiming]) -> list[Timing]:
    """The times of stages as replies have them."""
    return [Timing(stage=timing.stage, milliseconds=round(timing.milliseconds, 3)) for timing in timings]


async def _details(
    served: Served, request: SearchRequest, result: SearchResult
) -> list[tuple[ExplanationNode | None, HitSegment | None]]:
    """The explanation and the segment of each hit, if they are asked for."""
    stage, ranking = result.stage, result.ranking
    explanations: list[ExplanationNode | None] = [None] * len(ranking)
    segments: list[HitSegment | None] = [None] * len(ranking)
    if request.explain:
        explained = await served.run_stage(stage, _explain_all, stage, ranking.query, ranking.docnos)
        explanations = [ExplanationNode.of(explanation) for explanation in explained]
    if request.segment:
        segments = [*await served.compute(_match_all, stage, ranking.query, ranking.docnos)]
    return list(zip(explanations, segments, strict=True))


def _explain_all(stage: Stage, query: SearchQuery, docnos: Sequence[str]) -> list[Explanation]:
    return [explain_score(stage, query.text, docno) for docno in docnos]


def _match_all(stage: Stage, query: SearchQuery, docnos: Sequence[str]) -> list[HitSegment]:
    from telerank.segments.stage import find_segments

    try:
        by_segments = find_segments(stage)
    except ExpressionError as error:
        raise Unprocessable(f"segment: {error}") from error
    matches = [by_segments.match(query, docno)[0] for docno in docnos]
    return [
        HitSegment(
            number=match.number,
            count=match.count,
            start=match.span.start,
            end=match.span.end,
            text=match.text,
            score=match.score,
        )
        for match in matches
    ]


def _rank_and_show(
    request: SearchRequest, rank: Callable[[], SearchResult]
) -> tuple[SearchResult, list[Hit]]:
    """All of a plain search in one thread: each change of threads takes time."""
    result = rank()
    return result, _show_hits(request, result, [(None, None)] * len(result.ranking))


def _show_hits(
    request: SearchRequest,
    result: SearchResult,
    details: Sequence[tuple[ExplanationNode | None, HitSegment | None]],
) -> list[Hit]:
    """The hits of a page, in a thread: the terms of long documents take time to find."""
    query, index = result.ranking.query.text, result.index.index
    terms = query_terms(index, query) if request.highlight else {}
    hits = []
    for number, ((docno, score), (explanation, segment)) in enumerate(
        zip(result.ranking, details, strict=True)
    ):
        doc = index.doc(docno)
        hit = Hit(
            rank=result.skipped + number + 1,
            docno=docno,
            score=score,
            title=doc.title,
            url=doc.url,
            text=doc.text if request.text else None,
            explanation=explanation,
            segment=segment,
        )
        if request.highlight and index.has_texts:
            matches = find_matches(index.analyzer, doc.text, terms)
            hit.terms = [HighlightedTerm(term=term, start=start, end=end) for term, start, end in matches]
            parts = snippet(doc.text, matches, terms)
            hit.snippet = [Snippet(text=part.text, kind=part.kind) for part in parts]
        hits.append(hit)
    return hits
