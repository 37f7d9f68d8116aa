"""Work for a client that may leave before it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Value = TypeVar("Value")


async def while_connected(request: Request, work: Coroutine[Any, Any, Value]) -> Value:
    """The result of ``work``, which is cancelled if the client closes the connection; the body must be read.

    Raises
    ------
    ClientDisconnect
        If the client has left: nobody reads a reply.
    """
    running, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_until_left(request))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientDisconnect
        return running.result()
    finally:
        running.cancel()
        leaving.cancel()


async def _until_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
