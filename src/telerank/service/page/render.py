"""The addresses of the page, its templates, and the replies made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from telerank.retrieval.group import Column
from telerank.service.page.messages import LANGUAGES, Messages, choose_language
from telerank.syntax.parser import Syntax
from telerank.text.follow_up import KEPT

SIZE = 10  # results on a page
_POLICY = (  # this host's files alone, no script or style in the page itself
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept-Language",
}
STATIC: Mapping[str, str] = {  # the files of the page and their types
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


_TEMPLATES = Environment(  # everything that is put into them is escaped
    loader=PackageLoader("telerank.service.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Inquiry:
    """What the address of a page asks for; ``None`` stands for the default.

    ``before`` are the questions before it, which the page keeps in its address and nobody else does; a query
    that ``is_final`` is no follow-up, or is one no more.
    """

    query: str = ""
    index: str | None = None
    model: str | None = None
    page: int = 1
    group: Column | None = None
    filter: str | None = None
    syntax: Syntax = "simple"
    before: tuple[str, ...] = ()
    is_final: bool = False

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions that are before the next one."""
        return (*self.before, *filter(None, [self.query]))[-KEPT:]


@dataclass(frozen=True)
class Links:
    """The addresses of a service below ``prefix``, in the language ``lang`` if the address names one."""

    prefix: str = ""
    lang: str | None = None

    def to(self, path: str, **values: object) -> str:
        """The address of a path (without its first slash) with the values that are set as its query.

        A tuple stands for several values of a name.
        """
        given = {**values, "lang": self.lang}.items()
        each = [
            (name, one) for name, value in given for one in (value if isinstance(value, tuple) else (value,))
        ]
        query = urlencode([(name, str(value)) for name, value in each if value not in (None, "")])
        return f"{self.prefix}/{path}{'?' if query else ''}{query}"

    def search(self, inquiry: Inquiry, *, page: int | None = None, **more: object) -> str:
        """The address of the results, or of another ``page`` of them; ``more`` replaces values."""
        return self.to("search", **{**self.values(replace(inquiry, page=page or inquiry.page)), **more})

    def values(self, inquiry: Inquiry) -> dict[str, object]:
        """An inquiry as the values of an address."""
        page = inquiry.page if inquiry.page > 1 else None
        chosen = {"index": inquiry.index, "model": inquiry.model, "group": inquiry.group}
        chosen["filter"] = inquiry.filter
        chosen["syntax"] = None if inquiry.syntax == "simple" else inquiry.syntax
        before = {"before": inquiry.before, "final": 1 if inquiry.before and inquiry.is_final else None}
        return {"query": inquiry.query, **chosen, "page": page, **before}

    def document(
        self,
        inquiry: Inquiry,
        docno: str,
        span: tuple[int, int] | None = None,
        *,
        is_answer: bool = False,
        part: int | None = None,
        rank: int | None = None,
    ) -> str:
        """The address of a document, at the characters of an answer or a passage; or of one of its parts.

        With ``rank`` it is that of a result, and opening it is a click.
        """
        values = {
            **self.values(inquiry),
            "page": None,
            "part": part,
            "at": f"{span[0]}-{span[1]}" if span else None,
            "kind": "answer" if is_answer else None,
            "rank": rank,
        }
        return self.to("document", docno=docno, **values) + ("#passage" if span else "")


@cache
def static_file(name: str) -> bytes:
    """The content of one of :data:`STATIC`."""
    return files("telerank.service.page").joinpath("static", name).read_bytes()


@cache
def static_version(name: str) -> str:
    """A name of a file's content, part of its address, so that it can be kept for ever."""
    return hashlib.blake2b(static_file(name), digest_size=6).hexdigest()


def links_of(request: Request) -> Links:
    """The addresses of the service that a request came to."""
    lang = request.query_params.get("lang")
    return Links(request.app.state.served.settings.prefix, lang if lang in LANGUAGES else None)


def messages_of(request: Request) -> Messages:
    """The texts in the language of a request."""
    return Messages(
        choose_language(request.headers.get("accept-language", ""), request.query_params.get("lang"))
    )


def render(request: Request, template: str, values: Mapping[str, Any], *, status: int = 200) -> HTMLResponse:
    """A page from a template with its values, in the language of the request."""
    links, say = links_of(request), messages_of(request)
    query: dict[str, tuple[str, ...]] = {}
    for key, value in request.query_params.multi_items():
        query[key] = (*query.get(key, ()), value)
    query.pop("lang", None)
    path = request.url.path.removeprefix(links.prefix).lstrip("/") if request.method != "POST" else ""
    page = _TEMPLATES.get_template(template).render(
        say=say,
        links=links,
        settings=request.app.state.served.settings,
        other_language=Links(links.prefix, say.other).to(path, **query),
        **{name.split(".")[0]: f"{links.prefix}/static/{name}?v={static_version(name)}" for name in STATIC},
        **values,
    )  # fmt: skip
    return HTMLResponse(page, status, {**HEADERS, "Content-Language": say.language})
