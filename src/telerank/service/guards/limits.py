"""Limits of requests: what is too long, too deep, too slow or not UTF-8 reaches no route."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

import numpy as np
from starlette.types import ASGIApp, Receive, Scope, Send

from telerank.service.errors import BadRequest, Overloaded, ServiceError, TooLarge, error_response
from telerank.service.guards.connection import run_while_connected
from telerank.service.guards.keys import KeyRing
from telerank.service.settings import Limits

OPEN_PATHS = frozenset(("/health", "/health/live", "/health/ready"))
"""The paths that need no key."""
_DISCARDED = 8  # times the limit of a body that is read and discarded, so that the client reads the reply
_BUFFERED = 100  # times that limit, of the bodies of all requests together
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


@dataclass(eq=False)
class IncomingBody:
    """The body of a request as far as it was read; ``content`` is empty if it is not kept."""

    content: bytearray = field(default_factory=bytearray)
    size: int = 0
    is_complete: bool = False
    has_left: bool = False


class RequestGate:
    """Lets requests within the limits, and with a key, through to ``app``; a pure ASGI middleware.

    A body is read whole before the application runs. If the client leaves, the application is cancelled. The
    service stands below ``prefix``, whether a proxy strips that from the paths or not.
    """

    def __init__(self, app: ASGIApp, limits: Limits, keys: Iterable[str] = (), prefix: str = "") -> None:
        self.app, self.limits, self.keys, self.prefix = app, limits, KeyRing(keys), prefix
        self._open, self._buffered = 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["root_path"] = self.prefix
        body = IncomingBody()
        self._open += 1
        try:
            error = await self._refuse(scope, receive, body)
            if error is not None and not body.has_left:
                headers = {} if body.is_complete else {"Connection": "close"}
                await error_response(error, scope, headers)(scope, receive, send)
            elif not body.has_left:
                await run_while_connected(self.app, scope, bytes(body.content), receive, send)
        finally:
            self._open -= 1
            self._buffered -= len(body.content)

    async def _refuse(self, scope: Scope, receive: Receive, body: IncomingBody) -> ServiceError | None:
        """Read the body; the error if the request is refused.

        The body of a refused request is read, too, up to a limit: a client that still sends reads no reply.
        """
        error: ServiceError | None = None
        try:
            self._check_scope(scope)
        except ServiceError as refused:
            error = refused
        try:
            if error is None or not _waits_to_send(scope):
                await self._read(receive, body, keep=error is None)
            check_body(body, dict(scope["headers"]), self.limits)
        except ServiceError as refused:
            error = error or refused
        return error

    def _check_scope(self, scope: Scope) -> None:
        if self._open > self.limits.connections:
            raise Overloaded(f"{self.limits.connections:,} requests are open: try again")
        check_target(scope, self.limits)
        check_headers(scope, self.limits)
        if path_of(scope) not in OPEN_PATHS:
            self.keys.check(scope["headers"])
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self.limits.body_bytes:
            raise _too_large(self.limits)

    async def _read(self, receive: Receive, body: IncomingBody, *, keep: bool) -> None:
        most, seconds = self.limits.body_bytes, self.limits.body_seconds
        try:
            async with asyncio.timeout(seconds):
                while not body.is_complete and body.size <= _DISCARDED * most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        body.has_left = True
                        return
                    chunk = message.get("body", b"")
                    body.size += len(chunk)
                    body.is_complete = not message.get("more_body", False)
                    if not keep or body.size > most:
                        continue
                    self._buffered += len(chunk)
                    body.content += chunk
                    if self._buffered > _BUFFERED * most:
                        raise Overloaded("too many requests send their bodies: try again")
        except TimeoutError as error:
            raise BadRequest(f"the body did not arrive within {seconds:g} seconds") from error


def path_of(scope: Scope) -> str:
    """The path of a request below the prefix of the service."""
    path: str = scope["path"]
    return path.removeprefix(scope["root_path"])


def check_target(scope: Scope, limits: Limits) -> None:
    """Check the path and the query string.

    Raises
    ------
    TooLarge
        If they are too long.
    BadRequest
        If they are not UTF-8, or the path has a control character.
    """
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    if len(path) + len(query) > limits.path_bytes:
        raise TooLarge(f"path and query string have at most {limits.path_bytes:,} bytes")
    try:
        decoded = unquote_to_bytes(path).decode()
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as error:
        raise BadRequest("path or query string: not UTF-8") from error
    if _CONTROL.search(decoded):
        raise BadRequest("path: it has a control character")


def check_headers(scope: Scope, limits: Limits) -> None:
    """Check the number and the size of the headers; raises TooLarge."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > limits.headers or size > limits.header_bytes:
        raise TooLarge(f"at most {limits.headers} headers of {limits.header_bytes:,} bytes in all")


def check_body(body: IncomingBody, headers: dict[bytes, bytes], limits: Limits) -> None:
    """Check a body: its size; JSON and forms are UTF-8, JSON has no more levels than the limits say.

    Raises
    ------
    TooLarge
        If it is too large.
    BadRequest
        If it is not UTF-8, or too deep.
    """
    if body.size > limits.body_bytes:
        raise _too_large(limits)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    is_form = kind == b"application/x-www-form-urlencoded"
    if not body.content or not (is_form or b"json" in kind):
        return
    try:
        (unquote_to_bytes(bytes(body.content)) if is_form else body.content).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8, from byte {error.start:,} on") from error
    if not is_form and b"\0" in body.content:
        raise BadRequest("the body is no JSON in UTF-8: it has a NUL")
    if not is_form and measure_depth(body.content) > limits.json_depth:
        raise BadRequest(f"the body has more than {limits.json_depth} levels of brackets")


def measure_depth(text: bytes | bytearray) -> int:
    """The most brackets within each other in a JSON text; those in strings do not count."""
    characters = np.frombuffer(_STRINGS.sub(b"", text), np.uint8)
    return int(_STEPS[characters].cumsum(dtype=np.int64).max(initial=0))


def _too_large(limits: Limits) -> TooLarge:
    return TooLarge(f"the body has more than {limits.body_bytes:,} bytes")


def _waits_to_send(scope: Scope) -> bool:
    """Whether the client sends its body only when it is told to."""
    expected: bytes = dict(scope["headers"]).get(b"expect", b"")
    return expected.lower() == b"100-continue"
