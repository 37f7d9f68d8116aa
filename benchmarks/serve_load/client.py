"""A client that costs little: requests are bytes made before, replies are read by a protocol of asyncio."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

HOST = "127.0.0.1"
WAIT = 120.0  # seconds for a reply
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

Check = Callable[[bytes], str]
"""What is wrong with the body of a reply; empty: nothing."""


@dataclass(frozen=True)
class Reply:
    """``status`` 0: there was none, and ``body`` says why."""

    status: int
    body: bytes = b""


class Connection(asyncio.Protocol):
    """A connection that is kept; one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._reply: asyncio.Future[Reply] | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    async def ask(self, request: bytes) -> Reply:
        self._received.clear()
        self._reply = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._reply

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        """Leave without a word: the server gets a reset."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        length = None if end < 0 else _LENGTH.search(self._received, 0, end + 2)
        if length is not None and len(self._received) >= end + 4 + int(length[1]):
            self._settle(Reply(int(self._received[9:12]), bytes(self._received[end + 4 :])))

    def connection_lost(self, error: Exception | None) -> None:
        status = int(self._received[9:12]) if self._received[9:12].isdigit() else 0
        self._settle(Reply(status, b"" if status else f"closed: {error}".encode()))

    def _settle(self, reply: Reply) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)


def post(path: str, body: Mapping[str, object] | bytes, *headers: str) -> bytes:
    """The bytes of a POST request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(content)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + content


def get(path: str, *headers: str) -> bytes:
    """The bytes of a GET request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {HOST}", *headers, "", ""]).encode()


@dataclass
class Measured:
    """What clients saw: the seconds of each request, statuses, and what was wrong with replies."""

    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    client_seconds: float = 0.0
    """Processor time of the client."""

    @property
    def errors(self) -> int:
        """Requests that failed, and replies with something wrong."""
        return sum(self.statuses.values()) - self.statuses[200] + sum(self.wrong.values())

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        return 1000 * float(np.percentile(self.times, share))


class Users:
    """``count`` users on a connection each; each asks again as soon as it has a reply."""

    def __init__(self, port: int, count: int, check: Check | None = None) -> None:
        self.port, self.count, self.check = port, count, check
        self.measured = Measured()
        self.is_stopping = False

    async def ask_all(self, requests: Iterable[bytes]) -> Measured:
        """Let the users share these requests; it ends with them, or when ``is_stopping`` is set."""
        shared = iter(requests)
        began, used = time.perf_counter(), time.process_time()
        await asyncio.gather(*(self._use(shared) for _ in range(self.count)))
        self.measured.seconds = time.perf_counter() - began
        self.measured.client_seconds = time.process_time() - used
        return self.measured

    async def _use(self, requests: Iterator[bytes]) -> None:
        connection, measured = await Connection.open(self.port), self.measured
        for request in requests:
            if self.is_stopping:
                break
            began = time.perf_counter()
            try:
                async with asyncio.timeout(WAIT):
                    reply = await connection.ask(request)
            except TimeoutError:
                reply = Reply(0, b"no reply")
            measured.times.append(time.perf_counter() - began)
            measured.statuses[reply.status] += 1
            if reply.status != 200:
                measured.wrong[reply.body[:200].decode(errors="replace")] += 0
                connection.abort()
                with suppress(OSError):
                    connection = await Connection.open(self.port)
            elif self.check is not None and (wrong := self.check(reply.body)):
                measured.wrong[wrong] += 1
        connection.close()


def repeat(requests: Sequence[bytes], count: int | None = None) -> Iterator[bytes]:
    """The requests again and again, ``count`` in all; None: without an end."""
    number = 0
    while count is None or number < count:
        yield requests[number % len(requests)]
        number += 1
