"""Searching an index, and explaining a score."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from telerank.errors import ExpressionError
from telerank.feedback.like import LIKE
from telerank.retrieval.group import MOST_FURTHER
from telerank.service.errors import ERRORS, BadRequest, NotServed, Unprocessable
from telerank.service.indexes import ServedIndex
from telerank.service.observe import note
from telerank.service.page.highlight import Part, find_matches, query_terms, snippet
from telerank.service.routes.fields import (
    Body,
    Docno,
    FacetNames,
    FilterText,
    GroupName,
    History,
    IndexName,
    PipelineReply,
    PipelineText,
    QueryText,
    SyntaxName,
)
from telerank.service.searching import (
    QID,
    StagedRanking,
    StageRun,
    find_groups,
    refuse_values,
    run_stages,
    uses_models,
)
from telerank.service.settings import ServiceSettings
from telerank.service.state import CurrentServed, CurrentSnapshot, Served, Snapshot
from telerank.stage import Stage
from telerank.syntax.parser import Syntax
from telerank.syntax.reading import ReadQuery
from telerank.text.follow_up import FollowUp, follow_up
from telerank.types import Explanation, columns_record, whole_docno
from telerank.types import Query as SearchQuery
from telerank.vocabulary.spelling import correct

if TYPE_CHECKING:
    from telerank.retrieval.facets import Facet


class SearchRequest(Body):
    """A search: for a query, or for documents that are ``like`` one."""

    query: QueryText | None = None
    history: History = Field(default_factory=list)
    like: Docno | None = Field(
        default=None,
        description="A document, whose words are searched; instead of a query and a pipeline. "
        "The query of the reply is its name.",
    )
    index: IndexName = None
    pipeline: PipelineText = None
    k: int = Field(10, ge=1, le=1_000_000, description="Documents of a page.")
    page: int = Field(1, ge=1, le=1_000_000, description="Number of the page, from 1.")
    text: bool = Field(default=True, description="Whether hits have the text of the document.")
    highlight: bool = Field(
        default=False, description="Whether hits have the places of the query's terms, and a snippet."
    )
    segment: bool = Field(
        default=False,
        description="Whether hits have the segment that counts most; the pipeline scores segments.",
    )
    explain: bool = Field(default=False, description="Whether hits have an explanation of the score.")
    group: GroupName = None
    filter: FilterText = None
    syntax: SyntaxName = "none"
    facets: FacetNames = None
    spelling: bool = Field(
        default=False,
        description="Whether misspelt words are corrected: `spelling` of the reply has what was probably "
        "meant, which is searched if nothing is found.",
    )


class SearchParameters(SearchRequest, strict=False):
    """A search as an address has it, in which every value is a text."""


class HighlightedTerm(BaseModel):
    """A term of the query in the document's text: characters ``start`` to ``end``, not included."""

    term: str
    start: int
    end: int


class HitSegment(BaseModel):
    """The segment that counts most: its number (from 0), its characters in the document's text, its score."""

    number: int
    count: int
    start: int
    end: int
    text: str
    score: float


class HitGroup(BaseModel):
    """The file of a hit, and its ``more`` further passages in the ranking, of which the first are named."""

    file: str
    more: int
    docnos: list[str]


class Hit(BaseModel):
    """A document of a ranking, or the best passage of a file."""

    rank: int
    docno: str
    score: float
    title: str = ""
    url: str = ""
    text: str | None = None
    columns: dict[str, Any] | None = None
    terms: list[HighlightedTerm] | None = None
    snippet: list[Part] | None = None
    group: HitGroup | None = None
    segment: HitSegment | None = None
    explanation: Explanation | None = None


class FacetCount(BaseModel, from_attributes=True):
    """How many documents have a value; ``filter`` finds them."""

    text: str
    count: int
    filter: str


class FacetCounts(BaseModel, from_attributes=True):
    """The values of a column in the ``documents`` that were counted, of which ``missing`` have none.

    ``others`` further values are left out. ``is_exact``: the documents are all that match, else the first of
    the ranking.
    """

    column: str
    kind: str
    by: str
    values: list[FacetCount]
    documents: int
    missing: int
    others: int
    is_exact: bool


class Spelling(BaseModel):
    """The query as it was ``typed``, and what was probably ``meant``; ``searched``: the hits are for that."""

    typed: str
    meant: str
    searched: bool


class QueryPart(BaseModel, from_attributes=True):
    """A part of a query in the simple syntax, and what it does: ranks, requires, excludes, or nothing.

    ``documents`` have it. A beginning (``word*``) stands for ``terms``, those of most documents of so
    ``many``. ``unread`` documents have the words of a phrase, and were too many to be read.
    """

    text: str
    kind: str
    effect: str
    documents: int | None = None
    terms: list[str] = Field(default_factory=list)
    many: int = 0
    unread: int = 0


class QuerySyntax(BaseModel):
    """How a query was read: the ``words`` that rank, and its parts, or the ``problem`` why it is words alone.

    ``notes`` say what in it was taken as words.
    """

    words: str
    parts: list[QueryPart]
    problem: str
    notes: list[str]


class SearchReply(PipelineReply):
    """A page of a ranking. ``generation`` is that of the index: it grows with every change.

    ``languages`` are the probabilities of the query's, if the index has several: below 0.9 it is searched in
    each.

    Of hits that are grouped ``total`` is the number on all pages; missing if it is not known, since the
    limit of the service was reached: then ``warnings`` say how many documents were grouped.
    """

    follow_up: FollowUp | None = None
    page: int
    k: int
    more: bool
    total: int | None = None
    warnings: list[str] | None = None
    spelling: Spelling | None = None
    syntax: QuerySyntax | None = None
    languages: dict[str, float] | None = None
    milliseconds: float
    stages: list[StageRun]
    hits: list[Hit]
    facets: list[FacetCounts] | None = None


class ExplainRequest(Body):
    """A query and a document."""

    query: QueryText
    docno: Docno
    index: IndexName = None
    pipeline: PipelineText = None
    group: GroupName = None
    filter: FilterText = None
    syntax: SyntaxName = "none"


class ExplainParameters(ExplainRequest, strict=False):
    """The same as an address has it."""


class ExplainReply(PipelineReply):
    """Why a document has the score that a pipeline gives it."""

    docno: str
    explanation: Explanation


router = APIRouter(prefix="/v1", tags=["search"], responses=ERRORS)


@router.get("/search", summary="Search", response_model_exclude_none=True)
async def search_by_url(
    served: CurrentServed, snapshot: CurrentSnapshot, request: Annotated[SearchParameters, Query()]
) -> SearchReply:
    """A page of the ranking of a query."""
    return await search(served, snapshot, request)


@router.post("/search", summary="Search", response_model_exclude_none=True)
async def search(served: CurrentServed, snapshot: CurrentSnapshot, request: SearchRequest) -> SearchReply:
    """A page of the ranking of a query, or of what was probably meant by it."""
    reply, opened = await _search(served, snapshot, request), snapshot.served_index(request.index)
    index = opened.index
    # words may be those of documents that a key does not see
    if not request.spelling or request.like is not None or not index.has_texts or opened.chosen is not None:
        return reply
    typed = reply.query
    kept = (await read_query(served, opened, request.syntax, typed, request.filter)).kept
    meant = await served.search(partial(correct, kept=kept), index.sparse, typed)
    if meant != typed and len(meant) <= served.settings.limits.query_characters:
        searched = not reply.hits and request.page == 1
        if searched:
            reply = await _search(served, snapshot, request.model_copy(update={"query": meant}))
        reply.spelling = Spelling(typed=typed, meant=meant, searched=searched)
    return reply


async def _search(served: Served, snapshot: Snapshot, request: SearchRequest) -> SearchReply:
    index = snapshot.served_index(request.index)
    request = _as_query(index, request)
    query, completed = complete_query(request.query or "", request.history, served.settings)
    read = await read_query(served, index, request.syntax, query.text, request.filter)
    stage = index.pipeline(request.pipeline, request.group, request.filter, read)
    typed, query = query, SearchQuery(QID, read.words)
    most, last = served.settings.limits.documents, request.k * request.page
    if last > most:
        raise Unprocessable(
            f"page {request.page} of {request.k} documents ends at {last:,}; at most {most:,} are ranked"
        )
    rank = partial(run_stages, stage % (last + 1), query)
    if uses_models(stage):
        ranked = await served.compute(rank)
        hits = await served.search(list_hits, index, stage, ranked, request)
    else:  # all in one thread: each change of threads takes time

        def rank_and_list() -> tuple[StagedRanking, list[Hit]]:
            ranked = rank()
            return ranked, list_hits(index, stage, ranked, request)

        ranked, hits = await served.search(rank_and_list)
    if request.explain:
        await served.run_stage(stage, _add_explanations, hits, stage, read)
    if request.segment:
        await served.compute(_add_segments, hits, stage, query)
    shown = index.pipeline(request.pipeline, request.group, request.filter).text
    run = record_run(served, index, shown, typed, ranked.stages)
    more = len(ranked.ranking) > last
    reply = SearchReply(**run, follow_up=completed, page=request.page, k=request.k, more=more, hits=hits)
    if index.index.has_texts:
        reply.languages = index.index.languages(query.text) or None
    if request.syntax == "simple":
        reply.syntax = QuerySyntax.model_validate(read.record)
    if request.facets:
        reply.facets = await served.run_stage(stage, count_facets, index, stage, query, request.facets)
    if groups := find_groups(stage, ranked):
        reply.total, reply.warnings = groups.total, [groups.remark] if groups.remark else None
    return reply


def count_facets(
    index: ServedIndex, stage: Stage, query: SearchQuery, columns: list[str]
) -> list[FacetCounts]:
    """The counts of columns; raises Unprocessable if there is no such column."""
    most = index.settings.limits.documents
    facets: list[Facet] = refuse_values(lambda: index.index.facets(query, columns, stage, depth=most))
    return [FacetCounts.model_validate(facet) for facet in facets]


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
    index.check_visible(request.docno)
    read = await read_query(served, index, request.syntax, query.text, request.filter)
    stage = index.pipeline(request.pipeline, request.group, request.filter, read)
    return ExplainReply(
        query=query.text,
        index=index.name,
        generation=index.generation,
        pipeline=index.pipeline(request.pipeline, request.group, request.filter).text,
        docno=request.docno,
        explanation=await served.run_stage(stage, explain_score, stage, read, request.docno),
    )


async def read_query(
    served: Served, index: ServedIndex, syntax: Syntax, query: str, where: str | None
) -> ReadQuery:
    """The query in a syntax, within a filter."""
    if syntax == "none":
        return ReadQuery.of_words(query)
    return await served.search(index.read_query, query, where)


def _as_query(index: ServedIndex, request: SearchRequest) -> SearchRequest:
    """A search for documents like one as a query of the stage that finds them."""
    if request.like is None:
        if request.query is None:
            raise Unprocessable("query: Field required, or like")
        return request
    if request.query is not None or request.pipeline or request.history:
        raise Unprocessable("like: it stands instead of a query and a pipeline")
    if not index.index.has_texts or request.like not in index.index.docs:
        raise NotServed(f"no document {request.like!r} with words in the index {index.name}")
    return request.model_copy(update={"query": request.like, "pipeline": LIKE})


def check_query(query: str, settings: ServiceSettings) -> SearchQuery:
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
    return SearchQuery(QID, text)


def complete_query(
    typed: str, history: Sequence[str], settings: ServiceSettings
) -> tuple[SearchQuery, FollowUp | None]:
    """A query that is completed from those before it, and how; None if it is as typed.

    Raises as :func:`check_query`, also of those before it.
    """
    query, most = check_query(typed, settings), settings.limits.query_characters
    for number, earlier in enumerate(history):
        if len(earlier) > most:
            raise Unprocessable(f"history.{number}: at most {most:,} characters, got {len(earlier):,}")
    completed = follow_up(query.text, history)
    if not completed.earlier or len(completed.text) > most:
        return query, None
    return SearchQuery(QID, completed.text), completed


def record_run(
    served: Served, index: ServedIndex, pipeline: str, query: SearchQuery, runs: list[StageRun]
) -> dict[str, Any]:
    """Log and count what was run for a query: it is returned as the fields that its reply begins with."""
    run = {"index": index.name, "generation": index.generation, "pipeline": pipeline, "query": query.text}
    note(**run)
    for each in runs:
        name = each.stage.partition("(")[0]
        times = served.metrics.stage_seconds.labels(name if name.isidentifier() else "other")
        times.observe(each.milliseconds / 1000)
    return {**run, "milliseconds": sum(each.milliseconds for each in runs), "stages": runs}


def explain_score(stage: Stage, read: ReadQuery, docno: str) -> Explanation:
    """Why a document has its score; raises NotServed if the pipeline gives it none."""
    query = SearchQuery(QID, read.words)
    try:
        return refuse_values(lambda: read.explain(stage.explain(query, docno), docno))
    except KeyError as error:
        raise NotServed(f"no document {docno!r} to which the pipeline gives a score") from error


def list_hits(index: ServedIndex, stage: Stage, ranked: StagedRanking, request: SearchRequest) -> list[Hit]:
    """The hits of a page, in a thread: the terms of long documents take time to find."""
    opened, last, ranking = index.index, request.k * request.page, ranked.ranking
    groups = find_groups(stage, ranked)
    terms = query_terms(opened, ranking.query.text) if request.highlight else {}
    hits = []
    for rank, (docno, score) in list(enumerate(ranking, 1))[last - request.k : last]:
        doc = opened[docno]
        hit = Hit(
            rank=rank,
            docno=docno,
            score=score,
            title=doc.title,
            url=doc.url,
            text=doc.text if request.text else None,
            columns=columns_record(doc.columns) or None,
        )
        if request.highlight and opened.has_texts:
            matches = find_matches(opened.analyzer, doc.text, terms)
            hit.terms = [HighlightedTerm(**match._asdict()) for match in matches]
            hit.snippet = snippet(doc.text, matches, terms)
        if groups:
            file = whole_docno(docno)
            _, *others = groups.passages[file]
            hit.group = HitGroup(file=doc.file or file, more=len(others), docnos=others[:MOST_FURTHER])
        hits.append(hit)
    return hits


def _add_explanations(hits: list[Hit], stage: Stage, read: ReadQuery) -> None:
    for hit in hits:
        hit.explanation = explain_score(stage, read, hit.docno)


def _add_segments(hits: list[Hit], stage: Stage, query: SearchQuery) -> None:
    from telerank.segments.stage import find_segments

    try:
        by_segments = find_segments(stage)
    except ExpressionError as error:
        raise Unprocessable(f"segment: {error}") from error
    for hit in hits:
        match = by_segments.match(query, hit.docno)[0]
        hit.segment = HitSegment(**vars(match), start=match.span.start, end=match.span.end)
