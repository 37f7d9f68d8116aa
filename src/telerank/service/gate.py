"""What stands before the routes: hosts, API keys, and limits of requests.

What is unauthorised, too long, too deep, too slow or not UTF-8 reaches no route.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import re
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telerank.columns.filters import Filter
from telerank.errors import shorten
from telerank.service.errors import (
    BadRequest,
    Misdirected,
    Overloaded,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unprocessable,
    Unsupported,
    error_response,
)
from telerank.service.settings import ACCESS, HEALTH, Limits, ServiceSettings, path_of

Headers = Iterable[tuple[bytes, bytes]]
_DISCARDED = 8  # times the limit of a body that is read and discarded, so that the client reads the reply
_BUFFERED = 100  # times that limit, of the bodies of all requests together
_SECONDS = 5.0  # in which a body behind an error is discarded
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d*)?")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1


def check_key(headers: Headers, digests: Mapping[bytes, Filter | None]) -> Filter | None:
    """The filter that is bound to the key of a request, by the hashes of all keys; None: it sees everything.

    Without keys every request is served. Of several keys of a request the filters hold together.

    ``Authorization`` has it as ``Bearer KEY``, as ``KEY`` alone, or as the password of ``Basic``;
    or ``X-API-Key`` has it. Comparing takes the same time whatever is given.

    Raises
    ------
    Unauthorized
        If it has none, or an unknown one.
    """
    keys = []
    for name, value in headers:
        scheme, _, rest = value.strip().partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            keys.append(rest.strip())
        elif name == b"authorization" and scheme.lower() == b"basic":
            try:
                keys.append(base64.b64decode(rest, validate=True).partition(b":")[2])
            except binascii.Error:
                keys.append(b"")
        elif name in (b"authorization", b"x-api-key"):
            keys.append(value.strip())
    hashes = [sha256(key).digest() for key in keys]
    if not digests:
        return None
    # every pair is compared, so that the time says nothing
    known = [
        chosen for given in hashes for digest, chosen in digests.items() if hmac.compare_digest(digest, given)
    ]
    if not known:
        raise Unauthorized("unknown API key" if keys else "no API key: send Authorization: Bearer KEY")
    bound = [chosen for chosen in known if chosen is not None]
    return reduce(Filter.both, bound) if bound else None


def check_host(headers: Headers, names: Iterable[str]) -> None:
    """Check the host of a request: an IP address, or one of ``names``, of which ``*.`` begins domains.

    A page of another name that is made to lead here (DNS rebinding) must not read or write as if it were
    the service's own. An address is no name, so nobody else can make it lead here. HTTP/1.0 has no host, and
    no browser speaks that.

    Raises
    ------
    Misdirected
        If it is another one.
    """
    domains = tuple(name[1:] for name in names if name.startswith("*"))
    for header, value in headers:
        if header != b"host":
            continue
        host = value.decode("latin1")
        match = _HOST.fullmatch(host)
        name = (match["v6"] or match["name"]).lower().rstrip(".") if match else ""
        if not (match and (name in names or name.endswith(domains) or _is_address(name))):
            raise Misdirected(f"the host {shorten(host)} is not served: see allowed_hosts")


class TrustedProxies:
    """Proxies by address or network; what they say of a client (``X-Forwarded-For``) is believed."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._networks = [ip_network(each, strict=False) for each in proxies]

    def __contains__(self, address: str) -> bool:
        return _is_address(address) and any(ip_address(address) in network for network in self._networks)


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


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
        keys = {**dict.fromkeys(settings.keys, ""), **settings.access}
        self._digests = {
            sha256(key.encode()).digest(): Filter.parse(chosen) if chosen else None
            for key, chosen in keys.items()
        }
        hosts = ("localhost", socket.gethostname(), settings.host, *settings.allowed_hosts)
        self._hosts = {name.lower().rstrip(".") for name in hosts}
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._open: Counter[str] = Counter()  # requests by the address of the client
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # ASGI's paths begin with the prefix. No path of the service does by itself: one that a proxy has
        # stripped could not be told from it.
        scope["root_path"] = self.prefix
        if not scope["path"].startswith(f"{self.prefix}/"):
            scope["path"] = f"{self.prefix}{scope['path']}"
        body, headers = IncomingBody(), dict(scope["headers"])
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0") != b""
        try:
            check_target(scope, self.limits)
            if path_of(scope) in HEALTH:
                if has_body:
                    raise BadRequest("expected no body")
                await self.app(scope, receive, send)
                return
            check_host(scope["headers"], self._hosts)
            scope[ACCESS] = check_key(scope["headers"], self._digests)
            if has_body:
                check_announced(headers, self.limits)
            address = (scope.get("client") or ("",))[0]
            self._check_open(address)
            self._open[address] += 1
            try:
                await self._read(receive, body)
                if not body.has_left:
                    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
                    check_body(body.content, kind, self.limits)
                    await run_while_connected(self.app, scope, bytes(body.content), receive, send)
            finally:
                self._open -= Counter((address,))  # none is left of an address without requests
        except ServiceError as error:
            unread = _DISCARDED * self.limits.body_bytes if has_body and not body.is_complete else 0
            await refuse(error, scope, receive, send, unread=unread)
        finally:
            self._buffered -= len(body.content)

    def _check_open(self, address: str) -> None:
        """Raise Overloaded if too many requests are open, or too many of an address."""
        most, most_of_address = self.limits.connections, self.limits.connections_per_address
        if self._open.total() >= most:
            raise Overloaded(f"{most:,} requests are open: try again")
        if address not in self._proxies and self._open[address] >= most_of_address:
            raise Overloaded(f"{most_of_address:,} requests of {address} are open: try again")

    async def _read(self, receive: Receive, body: IncomingBody) -> None:
        most, seconds = self.limits.body_bytes, self.limits.body_seconds
        try:
            async with asyncio.timeout(seconds):
                while not body.is_complete:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        body.has_left = True
                        return
                    body.content += message.get("body", b"")
                    self._buffered += len(message.get("body", b""))
                    body.is_complete = not message.get("more_body", False)
                    if len(body.content) > most:
                        raise TooLarge(f"the body has more than {most:,} bytes")
                    if self._buffered > _BUFFERED * most:
                        raise Overloaded("too many requests send their bodies: try again")
        except TimeoutError as error:
            raise BadRequest(f"the body did not arrive within {seconds:g} seconds") from error


def check_target(scope: Scope, limits: Limits) -> None:
    """Check the path, the query string, and the number and size of the headers.

    Raises
    ------
    TooLarge
        If they are too long.
    BadRequest
        If path or query string are not UTF-8, or the path has a control character.
    """
    path, query, headers = (
        scope.get("raw_path") or scope["path"].encode(),
        scope["query_string"],
        scope["headers"],
    )
    if len(path) + len(query) > limits.path_bytes:
        raise TooLarge(f"path and query string have at most {limits.path_bytes:,} bytes")
    try:
        decoded = unquote_to_bytes(path).decode()
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as error:
        raise BadRequest("path or query string: not UTF-8") from error
    if _CONTROL.search(decoded):
        raise BadRequest("path: it has a control character")
    if len(headers) > limits.headers or sum(map(len, chain(*headers))) > limits.header_bytes:
        raise TooLarge(f"at most {limits.headers} headers of {limits.header_bytes:,} bytes in all")


def check_announced(headers: Mapping[bytes, bytes], limits: Limits) -> None:
    """Check what the headers say of a body.

    Raises
    ------
    Unsupported
        If it is compressed.
    TooLarge
        If it is too long.
    """
    encoding = headers.get(b"content-encoding", b"identity").decode("latin1")
    if encoding.lower() != "identity":
        raise Unsupported(f"Content-Encoding: a body is read uncompressed, got {shorten(encoding)}")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > limits.body_bytes:
        raise TooLarge(f"the body has more than {limits.body_bytes:,} bytes")


def check_body(content: bytearray, kind: bytes, limits: Limits) -> None:
    """Check a body of a type: JSON and forms are UTF-8, JSON is not too deep, and has no key twice.

    Raises
    ------
    BadRequest
        If it is not UTF-8, or too deep.
    Unprocessable
        If an object has a key twice.
    """
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

    def check_keys(pairs: list[tuple[str, Any]]) -> None:
        for name, count in Counter(name for name, _ in pairs).most_common(1):
            if count > 1:
                raise Unprocessable(f"{shorten(name)[1:-1]}: an object has this key twice")

    with suppress(ValueError, RecursionError):  # the route says what is no JSON
        json.loads(content, object_pairs_hook=check_keys)


def measure_depth(text: bytes | bytearray) -> int:
    """The most brackets within each other in a JSON text; those in strings do not count."""
    steps = _STEPS[np.frombuffer(_STRINGS.sub(b"", text), np.uint8)]
    return int(steps.cumsum(dtype=np.int64).max(initial=0))


async def run_while_connected(app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Run ``app`` on a request whose body was read; cancel it if the client leaves before the reply."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def wait_until_left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def receive_read() -> Message:
        """The body once, then whether the client has left."""
        if not messages:
            await asyncio.shield(watching)
        return messages.pop() if messages else {"type": "http.disconnect"}

    running: Any = app(scope, receive_read, send)
    watching, handling = asyncio.create_task(wait_until_left()), asyncio.create_task(running)
    try:
        # once all of a reply is sent, there is nothing left in which the application could be cancelled
        await asyncio.wait((handling, watching), return_when=asyncio.FIRST_COMPLETED)
        if not handling.done():
            handling.cancel()
        with suppress(asyncio.CancelledError):
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
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    await error_response(error, scope, {"Connection": "close"})(scope, receive, send_unfinished)
    waits_to_send = dict(scope["headers"]).get(b"expect", b"").lower() == b"100-continue"
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            while unread > 0 and not waits_to_send:
                message = await receive()
                unread = unread - len(message.get("body", b"")) if message.get("more_body") else 0
    await send({"type": "http.response.body", "body": b"", "more_body": False})
