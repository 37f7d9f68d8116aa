"""Running an application as long as its client is there, and refusing a request so that it reads why."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telerank.service.errors import ServiceError, error_response

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
