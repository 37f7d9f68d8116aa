"""Judging documents: from the page, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import Field

from telerank.errors import ArgumentError, shorten
from telerank.retrieval.group import Column
from telerank.service.errors import BadRequest, Forbidden, NotServed, Unprocessable, describe_errors
from telerank.service.judgments import JudgmentFile
from telerank.service.page.messages import LANGUAGES
from telerank.service.page.render import HEADERS, Inquiry, Links
from telerank.service.routes.fields import ApiRecord
from telerank.service.routes.page import PageRoute, check_length
from telerank.service.settings import ServiceSettings
from telerank.service.state import CurrentServed, CurrentSnapshot, Served, Snapshot
from telerank.types import HIGHEST_GRADE, LEAST_GRADE


class JudgmentRequest(ApiRecord, extra="forbid"):
    """A grade of a document for a query: above 0 if it is relevant, 0 if it is not."""

    query: str = Field(min_length=1)
    docno: str = Field(min_length=1)
    grade: int = Field(ge=LEAST_GRADE, le=HIGHEST_GRADE, strict=True)
    index: str | None = None


class JudgmentReply(ApiRecord):
    """The judgment that was saved; ``qid`` is the same for the same words."""

    qid: str
    query: str
    docno: str
    grade: int
    time: str
    index: str


_FIELDS = 20


router = APIRouter(tags=["judgments"])
page_router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.post(
    "/v1/judgments",
    status_code=201,
    summary="Judge a document",
    responses=describe_errors((400, 401, 403, 404, 413, 415, 421, 422, 429, 503, 507)),
)
async def add_judgment(
    request: Request, served: CurrentServed, snapshot: CurrentSnapshot, judgment: JudgmentRequest
) -> JudgmentReply:
    """Save a grade of a document for a query, if the service keeps judgments."""
    require_own_page(request, served.settings)
    return await _save(served, snapshot, judgment)


@page_router.post("/judge")
async def judge(request: Request, served: CurrentServed, snapshot: CurrentSnapshot) -> Response:
    """What a thumb of the page sends: saved, then back to where it was pressed, or JSON for the script."""
    require_own_page(request, served.settings, is_form=True)
    body = await request.body()
    try:  # its fields, each once
        form = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS))
    except ValueError as error:  # of which UnicodeDecodeError is one
        raise BadRequest("the form cannot be read") from error
    try:
        grade = int(form.get("grade", ""))
    except ValueError as error:
        raise Unprocessable(
            f"grade: expected a whole number, got {shorten(form.get('grade', ''))}"
        ) from error
    judgment = JudgmentRequest.model_construct(
        query=form.get("query", ""), docno=form.get("docno", ""), grade=grade, index=form.get("index") or None
    )
    reply = await _save(served, snapshot, judgment)
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(reply.model_dump(), 201, HEADERS)
    return RedirectResponse(_place_of(form, served.settings), 303, HEADERS)


def require_own_page(request: Request, settings: ServiceSettings, *, is_form: bool = False) -> None:
    """Refuse what a page of another host sent.

    Browsers say where a request comes from in ``Sec-Fetch-Site``, or in ``Origin``. A form that says neither
    is refused; other programs may send JSON without.

    Raises
    ------
    Forbidden
        If it comes from another host than the one that it goes to, and not from one of ``cors``.
    """
    origin = request.headers.get("origin") or request.headers.get("referer")
    if origin in settings.cors:
        return
    site, is_own = request.headers.get("sec-fetch-site"), not is_form
    if site is not None:
        is_own = site in ("same-origin", "none")
    elif origin is not None:
        is_own = urlsplit(origin).netloc == request.headers.get("host", "")
    if not is_own:
        raise Forbidden("judgments are taken from this service's own page alone")


async def _save(served: Served, snapshot: Snapshot, judgment: JudgmentRequest) -> JudgmentReply:
    settings = served.settings
    if settings.judgments is None:
        raise NotServed("this service keeps no judgments")
    if not judgment.query.strip():
        raise Unprocessable("query: expected a text that is not empty")
    check_length("the query", judgment.query, settings.limits.query_characters)
    opened = snapshot.served_index(judgment.index)
    if not opened.index.has_texts or judgment.docno not in opened.index.docs:
        raise NotServed(f"no document {shorten(judgment.docno)} in the index {opened.name}")
    add, query = JudgmentFile(settings.judgments).add, " ".join(judgment.query.split())
    try:
        saved = await served.search(add, query, judgment.docno, judgment.grade, opened.name)
    except ArgumentError as error:
        raise Unprocessable(str(error)) from error
    return JudgmentReply(**asdict(saved))


def _place_of(form: Mapping[str, str], settings: ServiceSettings) -> str:
    """The address of the page on which a thumb was pressed, with thanks at the document."""
    lang, page, rank = form.get("lang"), form.get("page", "1"), form.get("rank", "")
    links = Links(settings.prefix, lang if lang in LANGUAGES else None)
    number = int(page) if page.isdecimal() and len(page) < 7 else 1
    group: Column | None = "file" if form.get("group") == "file" else None
    inquiry = Inquiry(
        form["query"], form.get("index"), form.get("model"), number, group, form.get("filter") or None
    )
    judged: dict[str, Any] = {"judged": form["docno"], "grade": form["grade"]}
    if form.get("on") == "document":
        return links.to("document", **{**links.values(inquiry), "page": None}, docno=form["docno"], **judged)
    return links.search(inquiry, **judged) + (f"#r{rank}" if rank.isdecimal() else "")
