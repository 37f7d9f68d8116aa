"""The pages on which people search, with results, comparisons, explanations, documents; and the API's."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute

from telerank.errors import ArgumentError, TelerankError, shorten_message
from telerank.service.errors import NotServed, ServiceError, Unprocessable
from telerank.service.judgments import JudgmentFile
from telerank.service.page.messages import TEXTS
from telerank.service.page.pages import Pages
from telerank.service.page.refine import LEAST, MOST, read_ranges
from telerank.service.page.render import (
    HEADERS,
    STATIC,
    Inquiry,
    links_of,
    messages_of,
    render,
    static_file,
    static_version,
)
from telerank.service.page.similar import list_similar
from telerank.service.page.why import describe_detail
from telerank.service.settings import ServiceSettings
from telerank.service.state import CurrentServed, CurrentSnapshot, Served
from telerank.syntax.parser import Syntax
from telerank.text.follow_up import KEPT

_METHODS = ["GET", "HEAD"]
_OF_REQUESTS = (400, 413, 422)  # errors whose messages help who asked; those of others are for the log
_SPAN = re.compile(r"(\d{1,12})-(\d{1,12})")


class PageRoute(APIRoute):
    """A route whose errors are pages, too."""


router = APIRouter(route_class=PageRoute, include_in_schema=False)


def error_page(request: Request, error: ServiceError) -> Response:
    """An error in the language of the page; what the service says of it if the request is the cause."""
    settings: ServiceSettings = request.app.state.served.settings
    say, key = messages_of(request), f"error.{error.status}"
    detail = shorten_message(str(error)) if error.status in _OF_REQUESTS else ""
    values = {
        "inquiry": Inquiry(request.query_params.get("query", "")[: settings.limits.query_characters]),
        "code": error.status,
        "message": say(key if key in TEXTS["en"] else "error.500"),
        "detail": describe_detail(detail, say),
        "can_retry": request.method == "GET" and error.retry_after is not None,
    }
    page = render(request, "error.html", values, status=error.status)
    page.headers.update(error.headers)
    return page


def is_page_error(request: Request, error: Exception) -> bool:
    """Whether an error is shown as a page: on a page's routes, and if a person follows a wrong address."""
    if isinstance(error, TelerankError | RequestValidationError):
        return isinstance(request.scope.get("route"), PageRoute)
    path = request.url.path.removeprefix(links_of(request).prefix)
    return "text/html" in request.headers.get("accept", "") and not path.startswith("/v1/")


def check_length(what: str, text: str, most: int) -> None:
    """Raise Unprocessable if a text is longer than ``most`` characters."""
    if len(text) > most:
        raise Unprocessable(f"{what} has {len(text):,} characters, at most {most:,}")


async def inquiry_of(
    *,
    query: str = "",
    index: str | None = None,
    model: str | None = None,
    group: Literal["file", ""] = "",
    filter: str = "",  # noqa: A002
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Inquiry:
    """What the address asks for; an empty value is none."""
    return Inquiry(query, index or None, model or None, page, group or None, filter or None)


async def conversation_of(
    before: Annotated[tuple[str, ...], Query(max_length=100)] = (),
    *,
    final: bool = False,
    syntax: Syntax = "simple",
) -> Mapping[str, Any]:
    """The questions before it, whether the query is no follow-up of them, or is completed, and its syntax."""
    questions = tuple(" ".join(each.split()) for each in before[-KEPT:])
    return {"before": questions, "is_final": final, "syntax": syntax}


async def pages_of(
    request: Request,
    snapshot: CurrentSnapshot,
    inquiry: Annotated[Inquiry, Depends(inquiry_of)],
    conversation: Annotated[Mapping[str, Any], Depends(conversation_of)],
) -> Pages:
    """The pages for what the address asks for.

    Raises
    ------
    Unprocessable
        If the query or the pipeline is too long.
    FilterError
        If a range is none.
    """
    limits = snapshot.settings.limits
    inquiry = replace(inquiry, **conversation)
    for query in (inquiry.query, *inquiry.before):
        check_length("the query", query, limits.query_characters)
    check_length("the pipeline", inquiry.model or "", limits.pipeline_characters)
    inquiry = replace(inquiry, query=" ".join(inquiry.query.split()))
    if any(name.startswith((LEAST, MOST)) for name in request.query_params):
        kinds = snapshot.served_index(inquiry.index).columns
        inquiry = replace(inquiry, filter=read_ranges(inquiry.filter, request.query_params, kinds))
    return Pages(request, snapshot, inquiry, links_of(request), messages_of(request))


def is_own_page(request: Request) -> bool:
    """Whether a link of this service's own page was followed, as far as the browser says."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    referer = request.headers.get("referer", "")
    return urlsplit(referer).netloc == request.headers.get("host", "")


def keep_click(pages: Pages, docno: str, rank: int) -> None:
    """Add a click to the file of the settings, if there is one; one that cannot be kept is logged."""
    file = pages.snapshot.settings.clicks
    if file is not None:
        with suppress(ServiceError, ArgumentError):  # the file logs what it could not write
            JudgmentFile(file).add(pages.inquiry.query, docno, 1, pages.served.name, rank)


async def thanks_for(judged: str | None = None, grade: int | None = None) -> Mapping[str, int]:
    """The grade of the document that was just judged, as the address says."""
    return {} if judged is None or grade is None else {judged: grade}


CurrentPages = Annotated[Pages, Depends(pages_of)]
Thanks = Annotated[Mapping[str, int], Depends(thanks_for)]


@router.api_route("/", methods=_METHODS)
async def home(pages: CurrentPages) -> Response:
    return pages.render("home.html")


@router.api_route("/search", methods=_METHODS)
async def search(
    served: CurrentServed, pages: CurrentPages, thanks: Thanks, spelling: Literal["", "off"] = ""
) -> Response:
    """The results of a query; with ``spelling=off`` as it was typed."""
    inquiry = pages.inquiry
    if not inquiry.query:
        return RedirectResponse(pages.links.to("", **pages.links.values(inquiry)), 303, HEADERS)
    completed, pages = pages.completed()
    unusable = pages.why_unusable(inquiry.model)
    pages = pages.with_usable_pipeline()
    stage = pages.stage(group=inquiry.group)
    view = await served.run_stage(stage, partial(pages.results, stage, as_typed=spelling == "off"))
    values = {"view": view, "thanks": thanks, "unusable": unusable, "chosen": inquiry.model}
    return pages.render("results.html", **values, completed=completed)


@router.api_route("/answer", methods=_METHODS)
async def answer(served: CurrentServed, pages: CurrentPages) -> Response:
    """What a reader answers: a page, whose middle the script puts above the results."""
    inquiry = pages.inquiry
    if not inquiry.query:
        return RedirectResponse(pages.links.to("", **pages.links.values(inquiry)), 303, HEADERS)
    pages = pages.with_usable_pipeline()
    reader = pages.reader()
    return pages.render("answer.html", view=await served.compute(pages.answered, pages.stage(), reader))


@router.api_route("/compare", methods=_METHODS)
async def compare(served: CurrentServed, pages: CurrentPages, a: str = "", b: str = "") -> Response:
    """The first results of the pipelines ``a`` and ``b`` side by side; without both, the form alone."""
    for name in (a, b):
        check_length("the pipeline", name, served.settings.limits.pipeline_characters)
    views, reasons = None, {name: pages.why_unusable(name) for name in (a, b) if name}
    unusable = {name: reason for name, reason in reasons.items() if reason.text}
    if pages.inquiry.query and a and b and not unusable:
        left, right = pages.stage(a), pages.stage(b)
        views = await served.run_stage(left + right, pages.compare, left, right)
    return pages.render("compare.html", views=views, unusable=unusable, a=a, b=b)


@router.api_route("/explain", methods=_METHODS)
async def explain(served: CurrentServed, pages: CurrentPages, docno: str) -> Response:
    """Why a document has its rank."""
    stage = pages.stage(group=pages.inquiry.group)
    return pages.render("explain.html", view=await served.run_stage(stage, pages.explained, stage, docno))


class Excerpt(NamedTuple):
    """A document, or a part of it, in which the address marks characters: ``120-180``."""

    docno: str
    span: tuple[int, int] | None
    part: int | None
    kind: str


def excerpt_of(
    docno: str,
    at: str = "",
    part: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    kind: str = "passage",
) -> Excerpt:
    """The excerpt that a request names."""
    match = _SPAN.fullmatch(at)
    return Excerpt(docno, (int(match[1]), int(match[2])) if match else None, part, kind)


@router.api_route("/document", methods=_METHODS)
async def document(
    pages: CurrentPages,
    thanks: Thanks,
    excerpt: Annotated[Excerpt, Depends(excerpt_of)],
    rank: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> Response:
    """A document; its marked characters are from the first to behind the last.

    With ``rank`` a result was opened, which is kept if the settings say so.
    """
    served: Served = pages.request.app.state.served
    view = await served.search(pages.document, *excerpt)
    if rank is not None and pages.inquiry.query and is_own_page(pages.request):
        await served.search(keep_click, pages, excerpt.docno, rank)
    similar = await served.search(list_similar, pages, excerpt.docno)
    return pages.render("document.html", view=view, thanks=thanks, similar=similar)


@router.api_route("/static/{name}", methods=_METHODS)
async def static(request: Request, name: str, v: str = "") -> Response:
    """A file of the page; kept for ever under the address that names its version."""
    if name not in STATIC:
        raise NotServed(f"no file {name!r}")
    version = static_version(name)
    kept = "public, max-age=31536000, immutable" if v == version else "no-cache"
    headers = {**HEADERS, "Cache-Control": kept, "ETag": f'"{version}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(static_file(name), media_type=STATIC[name], headers=headers)


Record = Mapping[str, Any]
reference_router = APIRouter(include_in_schema=False)


@reference_router.api_route("/docs", methods=_METHODS)
async def reference(request: Request) -> Response:
    """Every operation of the API, with its fields and an example; nothing from elsewhere."""
    api, address = request.app.openapi(), str(request.base_url).rstrip("/")
    schemas = api.get("components", {}).get("schemas", {})
    operations = [
        _describe(method, path, operation, schemas, address)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    return render(request, "api.html", {"inquiry": Inquiry(), "operations": operations})


def _describe(method: str, path: str, operation: Record, schemas: Record, address: str) -> Record:
    """One operation; ``command`` asks for an example with curl, ``reply`` is what that gives."""
    parameters = operation.get("parameters", [])
    rows = [(each["name"], each["schema"], each.get("description"), each["required"]) for each in parameters]
    body = None
    if content := operation.get("requestBody", {}).get("content", {}).get("application/json"):
        body = _example(content, schemas)
        for record in _forms(content["schema"], schemas):
            required = record.get("required", [])
            rows += [
                (name, each, "", name in required) for name, each in record.get("properties", {}).items()
            ]
    replies = operation["responses"]
    good = next(each for status, each in replies.items() if status.startswith("2"))
    reply = next((_example(each, schemas) for each in good.get("content", {}).values()), None)
    return {
        "method": method.upper(),
        "path": path,
        "anchor": f"{method.upper()}{path}".translate(str.maketrans("/{}", "---")),
        "summary": operation.get("summary", ""),
        "description": operation.get("description", ""),
        "fields": [
            {
                "name": name,
                "kind": _kind(schema, schemas),
                "default": "required" if required else _json(schema.get("default")),
                "description": description or schema.get("description", ""),
            }
            for name, schema, description, required in rows
        ],
        "command": _command(method, f"{address}{path}", parameters, body, schemas),
        "reply": reply if isinstance(reply, str) else "" if reply is None else _json(reply),
        "statuses": [(status, each["description"]) for status, each in replies.items()],
    }


def _command(method: str, url: str, parameters: list[Record], body: Any, schemas: Record) -> str:
    query = {}
    for parameter in parameters:
        example = _example(parameter, schemas)
        if parameter["in"] == "path":
            url = url.replace(f"{{{parameter['name']}}}", str(example or "NAME"))
        elif parameter["required"]:
            query[parameter["name"]] = example
    address = shlex.quote(f"{url}?{urlencode(query, doseq=True)}" if query else url)
    if body is None:
        return f"curl {address}" if method == "get" else f"curl -X {method.upper()} {address}"
    return f"curl {address} -H 'Content-Type: application/json' -d {shlex.quote(_json(body, None))}"


def _kind(schema: Record, schemas: Record) -> str:
    """The type of a value, in words."""
    if "enum" in schema or "const" in schema:
        return " or ".join(_json(value) for value in schema.get("enum", [schema.get("const")]))
    forms = schema.get("anyOf", schema.get("oneOf"))
    if forms:
        kinds = dict.fromkeys(_kind(form, schemas) for form in forms)
        return " or ".join(kind for kind in kinds if kind != "null")
    if "$ref" in schema:
        target = _resolve(schema, schemas)
        return _kind(target, schemas) if "enum" in target else "object"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "any"))


def _example(content: Record, schemas: Record) -> Any:
    """The example of a content or a parameter, or of its schema; None if there is none."""
    named = content.get("examples")
    if isinstance(named, Mapping) and named:
        return next(iter(named.values()))["value"]
    if "example" in content:
        return content["example"]
    for form in _forms(content.get("schema", {}), schemas):
        if examples := form.get("examples"):
            return examples[0]
    return None


def _forms(schema: Record, schemas: Record) -> Iterator[Record]:
    """A schema, and those that it is a choice of."""
    own = _resolve(schema, schemas)
    yield own
    for form in own.get("anyOf", own.get("oneOf", [])):
        yield from _forms(form, schemas)


def _resolve(schema: Record, schemas: Record) -> Record:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _json(value: Any, indent: int | None = 1) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent if isinstance(value, dict | list) else None)
