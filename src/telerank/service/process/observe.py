"""A log line and numbers for every request."""

from __future__ import annotations

import logging
import random
import re
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telerank.service.logs import begin_notes, loggable
from telerank.service.metrics import Metrics
from telerank.service.paths import HEALTH

_log = logging.getLogger(__name__)
_QUIET = HEALTH | {"/metrics"}
"""Routes that programs ask again and again."""
_ID = re.compile(rb"[\w.-]{1,64}")


class RequestObserver:
    """Logs and counts each request of ``app``; a pure ASGI middleware.

    A request keeps the ``X-Request-ID`` that it comes with, or gets one; the reply has it, and the log.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, log_queries: bool = False) -> None:
        self.app, self.metrics, self.log_queries = app, metrics, log_queries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, notes, status, length = time.perf_counter(), begin_notes(), 0, 0
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given.decode() if _ID.fullmatch(given) else f"{random.getrandbits(128):032x}"

        async def observe(message: Message) -> None:
            nonlocal status, length
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            length += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, observe)
        except Exception:
            status = 500
            raise
        finally:
            seconds = time.perf_counter() - begin
            fields = {"id": request_id, "status": status, "milliseconds": round(1000 * seconds, 2)}
            self._record(
                scope, seconds, {**fields, "bytes": length, **loggable(notes, log_queries=self.log_queries)}
            )

    def _record(self, scope: Scope, seconds: float, fields: dict[str, object]) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method, status = scope["method"], int(str(fields["status"]))
        known = method if method in ("GET", "POST", "HEAD", "OPTIONS") else "other"
        self.metrics.requests.labels(route, known, str(status)).inc()
        self.metrics.request_seconds.labels(route).observe(seconds)
        level = logging.ERROR if status == 500 else logging.DEBUG if route in _QUIET else logging.INFO
        _log.log(level, "request", extra={"fields": {"method": method, "path": scope["path"], **fields}})
