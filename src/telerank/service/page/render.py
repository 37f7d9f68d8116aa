"""The templates, and the replies made of them, with the headers that keep a page to itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from telerank.service.page.messages import LANGUAGES, Messages, choose_language
from telerank.service.page.view import SIZE, Links
from telerank.service.settings import ServiceSettings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: this host's files alone, no script or style in the page itself."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "private, no-cache",
    "Vary": "Accept-Language",
}
STATIC: Mapping[str, str] = {
    "style.css": "text/css; charset=utf-8",
    "script.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files of the page and their types."""


@cache
def static_file(name: str) -> bytes:
    """The content of one of :data:`STATIC`."""
    return files("telerank.service.page").joinpath("static", name).read_bytes()


@cache
def static_version(name: str) -> str:
    """A name of a file's content, part of its address, so that it can be kept for ever."""
    return hashlib.blake2b(static_file(name), digest_size=6).hexdigest()


@cache
def templates() -> Environment:
    """The environment of the templates: everything that is put in is escaped."""
    return Environment(
        loader=PackageLoader("telerank.service.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def links_of(request: Request) -> Links:
    """The addresses of the service that a request came to."""
    settings: ServiceSettings = request.app.state.served.settings
    lang = request.query_params.get("lang")
    return Links(settings.prefix, lang if lang in LANGUAGES else None)


def messages_of(request: Request) -> Messages:
    """The texts in the language of a request."""
    return Messages(
        choose_language(request.headers.get("accept-language", ""), request.query_params.get("lang"))
    )


def render(
    request: Request,
    template: str,
    settings: ServiceSettings,
    values: Mapping[str, Any],
    *,
    status: int = 200,
) -> HTMLResponse:
    """A page from a template with its values, in the language of the request."""
    links, say = links_of(request), messages_of(request)
    own = {key: value for key, value in request.query_params.multi_items() if key != "lang"}
    path = request.url.path.removeprefix(links.prefix).lstrip("/") if request.method != "POST" else ""
    page = templates().get_template(template).render(
        say=say,
        links=links,
        settings=settings,
        size=SIZE,
        other_language=Links(links.prefix, say.other).to(path, **own),
        style=links.static("style.css", static_version("style.css")),
        script=links.static("script.js", static_version("script.js")),
        icon=links.static("icon.svg", static_version("icon.svg")),
        **values,
    )  # fmt: skip
    return HTMLResponse(page, status, {**HEADERS, "Content-Language": say.language})
