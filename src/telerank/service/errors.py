"""Errors of the service: each has a status, and one body that all clients read.

The body is ``{detail, message, error, error_type}``: FastAPI's clients read ``detail``, Cohere's ``message``,
those of text-embeddings-inference ``error`` and ``error_type``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

from telerank.errors import ExpressionError, TelerankError, shorten, shorten_message
from telerank.expressions import known_names

_log = logging.getLogger(__name__)
RETRY_SECONDS = 1
_TYPES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class ServiceError(TelerankError):
    """An error with the status of its reply, its type, and seconds after which to try again."""

    status: ClassVar[int] = 500
    error_type: ClassVar[str] = "internal"
    retry_after: int | None = None

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.retry_after = retry_after


class BadRequest(ServiceError):  # noqa: N818 — these are named as the statuses are
    """400: what was sent cannot be read, or is empty."""

    status, error_type = 400, "empty"


class Unauthorized(ServiceError):  # noqa: N818
    """401: no API key, or an unknown one."""

    status, error_type = 401, "unauthorized"


class NotServed(ServiceError):  # noqa: N818
    """404: there is no index, pipeline, model or document of that name; the message has those there are."""

    status, error_type = 404, "not_found"

    @classmethod
    def named(cls, kind: str, name: str, known: Iterable[str]) -> NotServed:
        return cls(f"no {kind} {shorten(name)}; {known_names(known)}")


class TooLarge(ServiceError):  # noqa: N818
    """413: a body, or the number of texts in it, is above its limit."""

    status, error_type = 413, "too_large"


class Unprocessable(ServiceError):  # noqa: N818
    """422: it can be read, but a value is not as expected."""

    status, error_type = 422, "validation"


class BackendFault(ServiceError):  # noqa: N818
    """424: an index or a model failed."""

    status, error_type = 424, "backend"


class Overloaded(ServiceError):  # noqa: N818
    """429: too many requests wait."""

    status, error_type, retry_after = 429, "overloaded", RETRY_SECONDS


class Unready(ServiceError):  # noqa: N818
    """503: the service opens its indexes and models, ends, or did not answer in time."""

    status, error_type, retry_after = 503, "unhealthy", RETRY_SECONDS


def error_body(message: str, error_type: str) -> dict[str, str]:
    """The body of every error."""
    message = shorten_message(message)
    return {"detail": message, "message": message, "error": message, "error_type": error_type}


def error_response(
    error: ServiceError, scope: Scope, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The reply of an error, with further ``headers``; a browser that lacks a key asks its user for it."""
    own = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == Unauthorized.status:
        is_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        own["WWW-Authenticate"] = 'Basic realm="telerank", charset="UTF-8"' if is_page else "Bearer"
    return JSONResponse(error_body(str(error), error.error_type), error.status, {**own, **(headers or {})})


def add_error_handlers(app: FastAPI) -> None:
    """Give every error of a route the body above."""

    @app.exception_handler(TelerankError)
    async def _(request: Request, error: TelerankError) -> JSONResponse:
        return error_response(as_service_error(error), request.scope)

    @app.exception_handler(RequestValidationError)
    async def _(request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(describe_invalid(error), request.scope)

    @app.exception_handler(Exception)
    async def _(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(error_body("internal error; the log of the service says more", "internal"), 500)

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        error_type = _TYPES.get(error.status_code, "validation" if error.status_code < 500 else "internal")
        body = error_body(str(error.detail), error_type)
        return JSONResponse(body, error.status_code, dict(error.headers or {}))


def as_service_error(error: TelerankError) -> ServiceError:
    """An error of the library as one of the service: 422 for a pipeline's text, else 424.

    What failed may name folders of the server: it stands in the log alone.
    """
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ExpressionError):
        return Unprocessable(str(error))
    _log.error("%s: %s", type(error).__name__, error)
    return BackendFault("an index or a model failed; the log of the service says why")


def describe_invalid(error: RequestValidationError) -> ServiceError:
    """What is wrong with the first value, in a line: 400 if the JSON cannot be read, else 422."""
    first: Mapping[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        return BadRequest(f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    where = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
    message = str(first["msg"]).removeprefix("Value error, ")
    return Unprocessable(f"{shorten(where)[1:-1]}: {message}")


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {"application/json": {"example": error_body(message, error_type)}},
    }
    for status, description, message, error_type in (
        (400, "The body cannot be read, or is empty.", "the body is no JSON: Expecting value", "empty"),
        (401, "The request has no API key, or an unknown one.", "unknown API key", "unauthorized"),
        (404, "There is nothing of that name.", "no index 'other'; known: piaf", "not_found"),
        (
            413,
            "The body, or the number of texts, is above the limit.",
            "1001 texts, at most 1000",
            "too_large",
        ),
        (422, "A value is not as expected.", "k: Input should be greater than 0", "validation"),
        (
            424,
            "An index or a model failed.",
            "an index or a model failed; the log of the service says why",
            "backend",
        ),
        (429, "Too many requests wait.", "512 requests wait: try again", "overloaded"),
        (503, "Not ready, or not in time.", "not ready: opening piaf", "unhealthy"),
    )
}
"""The errors of a route, for ``responses=`` of a router."""
