"""What the processes of the service tell: log lines, numbers for Prometheus, and which are ready."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import re
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from telerank.service.settings import HEALTH

_notes: ContextVar[dict[str, Any] | None] = ContextVar("notes", default=None)


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def configure_logs() -> None:
    """Let this process write its log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("telerank", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn.access").disabled = True  # its lines have query strings
    logging.captureWarnings(capture=True)


def note(**fields: Any) -> None:
    """Add fields to the log line of the present request; ``query`` is logged only if that is asked for."""
    notes = _notes.get()
    if notes is not None:
        notes.update(fields)


# the environment variable with the folder in which processes add up their numbers
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# bounds of histograms: of times, and of texts and tokens
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 16_384, 65_536)


class Metrics:
    """The numbers of one application; other parts add their own to ``registry``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "telerank_requests",
            "Requests by route, method and status; status 0: the client left.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "telerank_request_seconds",
            "Time of a request, from its first byte to the last of its reply.",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.stage_seconds = Histogram(
            "telerank_stage_seconds",
            "Time of a stage of a pipeline, by the function that it begins with.",
            ("stage",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge(
            "telerank_requests_waiting",
            "Requests whose work waits for a thread or runs in one.",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self.generation = Gauge(
            "telerank_index_generation",
            "Generation of the index that is served: the lowest of all processes.",
            ("index",),
            multiprocess_mode="livemin",
            registry=self.registry,
        )
        self.swaps = Counter(
            "telerank_index_changes",
            "Changed indexes, taken up or refused.",
            ("index", "outcome"),
            registry=self.registry,
        )

    def render(self) -> bytes:
        """All numbers as text; those of all processes if there are several."""
        registry = self.registry
        if FOLDER_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


_log = logging.getLogger(__name__)
_QUIET = HEALTH | {"/metrics"}  # routes that programs ask again and again
_ID = re.compile(rb"[\w.-]{1,64}")


class Readiness:
    """Counts the processes that are ready; shared by all of them."""

    def __init__(self, processes: int) -> None:
        self._count = multiprocessing.get_context("spawn").Value("i", 0)
        self._processes = processes

    def mark(self) -> None:
        """Count this process."""
        with self._count.get_lock():
            self._count.value += 1

    @property
    def is_complete(self) -> bool:
        """Whether as many processes were ready as there are."""
        return bool(self._count.value >= self._processes)


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
        begin, status, length = time.perf_counter(), 0, 0
        notes: dict[str, Any] = {}
        _notes.set(notes)
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
            route, method = getattr(scope.get("route"), "path", "other"), scope["method"]
            known = method if method in ("GET", "POST", "HEAD", "OPTIONS") else "other"
            self.metrics.requests.labels(route, known, str(status)).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            fields = {
                "method": method,
                "path": scope["path"],
                "id": request_id,
                "status": status,
                "milliseconds": round(1000 * seconds, 2),
                "bytes": length,
                **{name: value for name, value in notes.items() if self.log_queries or name != "query"},
            }
            level = logging.ERROR if status == 500 else logging.DEBUG if route in _QUIET else logging.INFO
            _log.log(level, "request", extra={"fields": fields})
