"""Errors of the service: each has a status, and one body that all clients read.

The body is ``{detail, message, error, error_type}``: FastAPI's clients read ``detail``, Cohere's ``message``,
those of text-embeddings-inference ``error`` and ``error_type``; on the routes of OpenAI's API ``error`` is an
object, whose ``message`` its clients read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

from telerank.errors import ExpressionError, TelerankError, known_names, shorten, shorten_message
from telerank.service.settings import OPENAI, path_of

_log = logging.getLogger(__name__)
RETRY_SECONDS = 1
_TYPES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}


class ServiceError(TelerankError):
    """An error with the status of its reply, its type, and seconds after which to try again; its headers."""

    status: int = 500
    error_type: str = "internal"
    retry_after: int | None = None

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after or type(self).retry_after
        self.headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}


class BadRequest(ServiceError):  # noqa: N818 — these are named as the statuses are
    """400: what was sent cannot be read, or is empty."""

    status, error_type = 400, "empty"


class Unauthorized(ServiceError):  # noqa: N818
    """401: no API key, or an unknown one."""

    status, error_type = 401, "unauthorized"


class Forbidden(ServiceError):  # noqa: N818
    """403: a page of another host sent the request."""

    status, error_type = 403, "forbidden"


class NotServed(ServiceError):  # noqa: N818
    """404: there is no index, pipeline, model or document of that name; the message has those there are."""

    status, error_type = 404, "not_found"

    @classmethod
    def named(cls, kind: str, name: str, known: Iterable[str]) -> NotServed:
        return cls(f"no {kind} {shorten(name)}; {known_names(known, name)}")


class TooLarge(ServiceError):  # noqa: N818
    """413: a body, or the number of texts in it, is above its limit."""

    status, error_type = 413, "too_large"


class Unsupported(ServiceError):  # noqa: N818
    """415: a body is compressed."""

    status, error_type = 415, "unsupported"


class Misdirected(ServiceError):  # noqa: N818
    """421: the request is for a host that is not served."""

    status, error_type = 421, "misdirected"


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


class Unsaved(ServiceError):  # noqa: N818
    """507: what was sent could not be written to the disk."""

    status, error_type = 507, "storage"


def error_body(message: str, error_type: str, path: str = "") -> dict[str, Any]:
    """The body of every error of a ``path``."""
    message = shorten_message(message)
    of_openai = {"message": message, "type": error_type, "param": None, "code": None}
    error = of_openai if path in OPENAI else message
    return {"detail": message, "message": message, "error": error, "error_type": error_type}


def error_response(
    error: ServiceError, scope: Scope, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The reply of an error, with further ``headers``; a browser that lacks a key asks its user for it."""
    sent = {**error.headers}
    if error.status == Unauthorized.status:
        is_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        sent["WWW-Authenticate"] = 'Basic realm="telerank", charset="UTF-8"' if is_page else "Bearer"
    return JSONResponse(
        error_body(str(error), error.error_type, path_of(scope)), error.status, {**sent, **(headers or {})}
    )


def as_service_error(error: Exception) -> ServiceError:
    """Any error as one of the service: 422 for a pipeline's text, 424 for others of the library.

    What failed may name folders of the server: it stands in the log alone.
    """
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ExpressionError):
        return Unprocessable(str(error))
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]  # what is wrong with the first value
        where = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        line = f"{shorten(where)[1:-1]}: {str(first['msg']).removeprefix('Value error, ')}"
        unread = f"the body is no JSON: {first.get('ctx', {}).get('error', first['msg'])}"
        return BadRequest(unread) if first["type"] == "json_invalid" else Unprocessable(line)
    if isinstance(error, HTTPException):
        of_status, status = ServiceError(str(error.detail)), error.status_code
        of_status.status = status
        of_status.error_type = _TYPES.get(status, "validation" if status < 500 else "internal")
        return of_status
    if isinstance(error, TelerankError):
        _log.error("%s: %s", type(error).__name__, error)
        return BackendFault("an index or a model failed; the log of the service says why")
    return ServiceError("internal error; the log of the service says more")


_EXAMPLES = {
    400: ("The body cannot be read, or is empty.", BadRequest("the body is no JSON: Expecting value")),
    401: ("The request has no API key, or an unknown one.", Unauthorized("unknown API key")),
    403: (
        "A page of another host sent the request.",
        Forbidden("judgments are taken from this service's own page alone"),
    ),
    404: ("There is nothing of that name.", NotServed("no index 'other'; known: piaf")),
    413: ("The body, or the number of texts, is above the limit.", TooLarge("1001 texts, at most 1000")),
    415: (
        "The body is compressed.",
        Unsupported("Content-Encoding: a body is read uncompressed, got 'gzip'"),
    ),
    421: (
        "The host is not one of the service.",
        Misdirected("the host 'search.example.org' is not served: see allowed_hosts"),
    ),
    422: ("A value is not as expected.", Unprocessable("k: Input should be greater than 0")),
    424: (
        "An index or a model failed.",
        BackendFault("an index or a model failed; the log of the service says why"),
    ),
    429: ("Too many requests wait.", Overloaded("512 requests wait: try again")),
    503: ("Not ready, or not in time.", Unready("not ready: opening piaf")),
    507: (
        "The judgment could not be written.",
        Unsaved("the judgment could not be saved: No space left on device"),
    ),
}


def describe_errors(statuses: Iterable[int], path: str = "") -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for its ``responses=``, with an example for each status."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        description, error = _EXAMPLES[status]
        example = {"example": error_body(str(error), error.error_type, path)}
        described[status] = {"description": description, "content": {"application/json": example}}
    return described


# the errors of every route, and as the routes of OpenAI's API have them; 403 and 507 are of judgments
ERRORS, OPENAI_ERRORS = (
    describe_errors(sorted(_EXAMPLES.keys() - {403, 507}), path) for path in ("", "/v1/embeddings")
)
