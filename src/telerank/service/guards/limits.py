"""Limits of requests: what is unauthorised, too long, too deep, too slow or not UTF-8 reaches no route."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telerank.errors import shorten
from telerank.service.errors import (
    BadRequest,
    Overloaded,
    ServiceError,
    TooLarge,
    Unprocessable,
    Unsupported,
    error_response,
)
from telerank.service.guards.access import KeyRing, ServedHosts, TrustedProxies
from telerank.service.settings import HEALTH, Limits, ServiceSettings, add_prefix, path_of

_DISCARDED = 8  # times the limit of a body that is read and discarded, so that the client reads the reply
_BUFFERED = 100  # times that limit, of the bodies of all requests together
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


@dataclass(eq=False)
class IncomingBody:
    """The body of a request as far as it was read."""

    content: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    has_left: bool = False


class RequestGate:
    """Lets requests for a host that is served, with a key and within the limits through to ``app``.

    It is a pure ASGI middleware. A request that its headers alone condemn, such as one without a key, is
    refused before its body is read, and counts for no limit. Other bodies are read whole before the
    application runs; it is cancelled if the client leaves. The service stands below ``prefix``, whether a
    proxy strips that from the paths or not.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self.app, self.limits, self.prefix = app, settings.limits, settings.prefix
        self._keys = KeyRing(settings.keys)
        self._hosts = ServedHosts(settings.allowed_hosts, settings.host)
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._open: Counter[str] = Counter()  # requests by the address of the client
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        add_prefix(scope, self.prefix)
        body = IncomingBody()
        try:
            self._check_head(scope)
            if path_of(scope) in HEALTH:
                await self.app(scope, receive, send)
                return
            with self._counted(scope):
                await self._read(receive, body)
                if not body.has_left:
                    check_body(body.content, scope, self.limits)
                    await run_while_connected(self.app, scope, bytes(body.content), receive, send)
        except ServiceError as error:
            unread = 0 if body.is_complete or not _has_body(scope) else _DISCARDED * self.limits.body_bytes
            await refuse(error, scope, receive, send, unread=unread)
        finally:
            self._buffered -= len(body.content)

    def _check_head(self, scope: Scope) -> None:
        """Raise the error of a request that is refused whatever its body is."""
        check_target(scope, self.limits)
        check_headers(scope, self.limits)
        if path_of(scope) in HEALTH:
            if _has_body(scope):
                raise BadRequest("expected no body")
            return
        self._hosts.check(scope["headers"])
        self._keys.check(scope["headers"])
        headers = dict(scope["headers"])
        encoding = headers.get(b"content-encoding", b"identity").decode("latin1")
        if encoding.lower() != "identity" and _has_body(scope):
            raise Unsupported(f"Content-Encoding: a body is read uncompressed, got {shorten(encoding)}")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self.limits.body_bytes:
            raise _too_large(self.limits)

    @contextmanager
    def _counted(self, scope: Scope) -> Iterator[None]:
        """Count an open request; raises Overloaded if there are too many, or too many of its address."""
        address, limits = (scope.get("client") or ("",))[0], self.limits
        if self._open.total() >= limits.connections:
            raise Overloaded(f"{limits.connections:,} requests are open: try again")
        if address not in self._proxies and self._open[address] >= limits.connections_per_address:
            raise Overloaded(f"{limits.connections_per_address:,} requests of {address} are open: try again")
        self._open[address] += 1
        try:
            yield
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]

    async def _read(self, receive: Receive, body: IncomingBody) -> None:
        most, seconds = self.limits.body_bytes, self.limits.body_seconds
        try:
            async with asyncio.timeout(seconds):
                while not body.is_complete:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        body.has_left = True
                        return
                    chunk = message.get("body", b"")
                    body.content += chunk
                    self._buffered += len(chunk)
                    body.is_complete = not message.get("more_body", False)
                    if len(body.content) > most:
                        raise _too_large(self.limits)
                    if self._buffered > _BUFFERED * most:
                        raise Overloaded("too many requests send their bodies: try again")
        except TimeoutError as error:
            raise BadRequest(f"the body did not arrive within {seconds:g} seconds") from error


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


def check_body(content: bytearray, scope: Scope, limits: Limits) -> None:
    """Check a body: JSON and forms are UTF-8, JSON has no more levels than the limits say, and no key twice.

    Raises
    ------
    BadRequest
        If it is not UTF-8, or too deep.
    Unprocessable
        If an object has a key twice.
    """
    kind = dict(scope["headers"]).get(b"content-type", b"").partition(b";")[0].strip().lower()
    is_form = kind == b"application/x-www-form-urlencoded"
    if not content or not (is_form or b"json" in kind):
        return
    try:
        (unquote_to_bytes(bytes(content)) if is_form else content).decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8, from byte {error.start:,} on") from error
    if is_form:
        return
    if b"\0" in content:
        raise BadRequest("the body is no JSON in UTF-8: it has a NUL")
    if measure_depth(content) > limits.json_depth:
        raise BadRequest(f"the body has more than {limits.json_depth} levels of brackets")
    with suppress(ValueError, RecursionError):  # the route says what is no JSON
        json.loads(content, object_pairs_hook=_check_keys)


def measure_depth(text: bytes | bytearray) -> int:
    """The most brackets within each other in a JSON text; those in strings do not count."""
    characters = np.frombuffer(_STRINGS.sub(b"", text), np.uint8)
    return int(_STEPS[characters].cumsum(dtype=np.int64).max(initial=0))


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    names = Counter(name for name, _ in pairs)
    if len(names) < len(pairs):
        raise Unprocessable(f"{shorten(names.most_common(1)[0][0])[1:-1]}: an object has this key twice")


def _too_large(limits: Limits) -> TooLarge:
    return TooLarge(f"the body has more than {limits.body_bytes:,} bytes")


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""


_SECONDS = 5.0  # in which a body behind an error is discarded


async def run_while_connected(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Run ``app`` on a request whose body was read; cancel it if the client leaves before the reply."""
    connection = _Connection(body, receive, send)
    running: Any = app(scope, connection.receive, connection.send)
    handling: asyncio.Task[None] = asyncio.create_task(running)
    watching = asyncio.create_task(connection.wait_until_left())
    try:
        await asyncio.wait((handling, watching), return_when=asyncio.FIRST_COMPLETED)
        if not handling.done() and not connection.has_replied:
            handling.cancel()
            with suppress(asyncio.CancelledError):
                await handling
        else:
            await handling
    finally:
        handling.cancel()
        watching.cancel()


async def refuse(error: ServiceError, scope: Scope, receive: Receive, send: Send, *, unread: int) -> None:
    """Reply with an error at once; close the connection if ``unread`` bytes of the body may still come.

    These are read first, for some seconds: a client whose connection is closed while it sends reads no reply.
    """
    if not unread:
        await error_response(error, scope)(scope, receive, send)
        return

    async def send_unfinished(message: Message) -> None:
        is_body = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if is_body else message)

    await error_response(error, scope, {"Connection": "close"})(scope, receive, send_unfinished)
    waits_to_send = dict(scope["headers"]).get(b"expect", b"").lower() == b"100-continue"
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            while unread > 0 and not waits_to_send:
                message = await receive()
                unread = unread - len(message.get("body", b"")) if message.get("more_body") else 0
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Connection:
    """What the application receives and sends: the body once, then whether the client has left."""

    def __init__(self, body: bytes, receive: Receive, send: Send) -> None:
        self.has_replied = False
        self._body: bytes | None = body
        self._receive, self._send = receive, send
        self._left = asyncio.Event()

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.has_replied = True
        await self._send(message)

    async def wait_until_left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left.set()
