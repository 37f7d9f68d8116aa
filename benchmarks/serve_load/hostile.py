"""Clients that are slow, leave, or send what they should not; each kind says which statuses it may get."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from serve_load.client import HOST, Connection, get, post
from serve_load.server import LIMITS

CLOSED = 0
"""Instead of a status: the server closed the connection."""
LEFT = -1
"""Instead of a status: the client did."""
_MOST = int(LIMITS["body_bytes"])
_QUERY = {"query": "histoire de la ville", "k": 10}


@dataclass(frozen=True)
class Kind:
    """A way to misbehave, and what may come of it."""

    name: str
    send: Callable[[int], Awaitable[int]]
    allowed: frozenset[int]


@dataclass
class Seen:
    """The statuses of each kind, of which ``undocumented`` are none that it may get."""

    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    undocumented: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return sum(sum(counted.values()) for counted in self.statuses.values())


async def misbehave(port: int, seconds: float, clients: int) -> Seen:
    """Let some clients do one kind after the other for so long; every kind is done at least once."""
    seen = Seen({kind.name: Counter() for kind in KINDS})
    began = time.perf_counter()

    async def client(first: int) -> None:
        number = 0
        while number * clients < len(KINDS) or time.perf_counter() - began < seconds:
            kind = KINDS[(first + number * clients) % len(KINDS)]
            number += 1
            status = await _do(kind, port)
            seen.statuses[kind.name][status] += 1
            if status not in kind.allowed:
                seen.undocumented.append(f"{kind.name}: {status}")

    await asyncio.gather(*(client(number) for number in range(clients)))
    seen.seconds = time.perf_counter() - began
    return seen


async def _do(kind: Kind, port: int) -> int:
    try:
        async with asyncio.timeout(60):
            return await kind.send(port)
    except OSError:
        return CLOSED


async def _exchange(port: int, *parts: bytes, pause: float = 0.0) -> int:
    """Send the parts with pauses; the status of the reply."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        with suppress(OSError):  # a server that refuses may close before all is sent
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
        line = await reader.readline()
        return int(line.split()[1]) if line.startswith(b"HTTP/1.1 ") else CLOSED
    finally:
        writer.close()


def _sends(*parts: bytes, pause: float = 0.0) -> Callable[[int], Awaitable[int]]:
    return lambda port: _exchange(port, *parts, pause=pause)


async def _leave_in_body(port: int) -> int:
    connection = await Connection.open(port)
    connection.transport.write(post("/v1/search", _QUERY)[:-5])
    await asyncio.sleep(0.01)
    connection.abort()
    return LEFT


async def _leave_in_reply(port: int) -> int:
    """Leave while the request is computed, or its reply sent."""
    connection = await Connection.open(port)
    connection.transport.write(post("/v1/search", {**_QUERY, "k": 500}))
    await asyncio.sleep(0.005)
    connection.abort()
    return LEFT


async def _do_not_read(port: int) -> int:
    """Ask for much, and read nothing of it for a while."""
    connection = await Connection.open(port)
    connection.transport.pause_reading()
    for _ in range(20):
        connection.transport.write(post("/v1/search", {**_QUERY, "k": 500}))
    await asyncio.sleep(0.5)
    connection.abort()
    return LEFT


def _of_size(size: int) -> bytes:
    """A search whose body has so many bytes: blanks may stand in JSON."""
    body = json.dumps(_QUERY).encode()
    return post("/v1/search", body + b" " * (size - len(body)))


_SEARCH = post("/v1/search", _QUERY)
_HEAD, _, _BODY = _SEARCH.partition(b"\r\n\r\n")
_DEEP = b'{"query": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def _kind(name: str, send: Callable[[int], Awaitable[int]], *allowed: int) -> Kind:
    return Kind(name, send, frozenset(allowed))


KINDS = (
    _kind("headers, a byte at a time", _sends(*(bytes([b]) for b in _HEAD[:60]), pause=0.05), CLOSED),
    _kind("no byte at all", _sends(b""), CLOSED),
    _kind("a body that stops", _sends(_SEARCH[:-5]), 400),
    _kind("a slow body", _sends(_HEAD + b"\r\n\r\n", *(bytes([b]) for b in _BODY), pause=0.02), 200),
    _kind("leaves in its body", _leave_in_body, LEFT),
    _kind("leaves before the reply", _leave_in_reply, LEFT),
    _kind("does not read", _do_not_read, LEFT),
    _kind("a body at the limit", _sends(_of_size(_MOST)), 200),
    _kind("a body beyond the limit", _sends(_of_size(_MOST + 1)), 413),
    _kind("ten times the limit", _sends(_of_size(10 * _MOST)), 413, CLOSED),
    _kind(
        "no length, chunks beyond the limit",
        _sends(
            get("/v1/search", "Content-Type: application/json", "Transfer-Encoding: chunked").replace(
                b"GET", b"POST"
            ),
            *(b"8000\r\n" + b" " * 0x8000 + b"\r\n" for _ in range(1 + _MOST // 0x8000)),
            b"0\r\n\r\n",
        ),
        413,
    ),
    _kind("invalid UTF-8 in the body", _sends(post("/v1/search", b'{"query": "\xff\xfe\xc3"}')), 400),
    _kind("invalid UTF-8 in the address", _sends(get("/v1/search?query=%ff%c3")), 400),
    _kind("half of a surrogate pair", _sends(post("/v1/search", b'{"query": "\\ud800"}')), 422),
    _kind("deep JSON", _sends(post("/v1/search", _DEEP)), 400),
    _kind("no JSON", _sends(post("/v1/search", b"{'query'")), 400),
    _kind("an unknown key", _sends(post("/v1/search", {**_QUERY, "x": 1})), 422),
    _kind("500 headers", _sends(get("/health", *(f"X-{n}: 1" for n in range(500)))), 413),
    _kind("a header of a megabyte", _sends(get("/health", "X-Long: " + "x" * 1_000_000)), 400, CLOSED),
    _kind("..%2f", _sends(get("/static/..%2f..%2f..%2fetc%2fpasswd")), 404),
    _kind("/../", _sends(get("/static/../../../../etc/passwd")), 404),
    _kind("%2e%2e/", _sends(get("/v1/indexes/%2e%2e/%2e%2e/etc/passwd")), 404),
    _kind("NUL in the path", _sends(get("/v1/indexes/piaf%00.json")), 400),
    _kind("a very long path", _sends(get("/" + "a" * 9_000)), 413),
    _kind("no HTTP", _sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), 400, CLOSED),
    _kind(
        "a wrong length", _sends(_HEAD.replace(b"Content-Length: ", b"Content-Length: x") + b"\r\n\r\n"), 400
    ),
    _kind("two lengths", _sends(_HEAD + b"\r\nContent-Length: 7\r\n\r\n" + _BODY), 400),
    _kind("an unknown method", _sends(get("/v1/search").replace(b"GET", b"BREW")), 405),
)
