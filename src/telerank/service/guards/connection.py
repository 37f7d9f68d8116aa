"""Running an application as long as its client is there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
