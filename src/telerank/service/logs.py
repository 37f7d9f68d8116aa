"""Logs as lines of JSON; a request's line has no text of its query unless that is asked for."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

_notes: ContextVar[dict[str, Any] | None] = ContextVar("notes", default=None)
_TEXTS = frozenset(("query",))
"""Notes that are texts of users."""


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


def begin_notes() -> dict[str, Any]:
    """The notes of the present request, to which :func:`note` adds."""
    notes: dict[str, Any] = {}
    _notes.set(notes)
    return notes


def note(**fields: Any) -> None:
    """Add fields to the log line of the present request; ``query`` is logged only if that is asked for."""
    notes = _notes.get()
    if notes is not None:
        notes.update(fields)


def loggable(notes: dict[str, Any], *, log_queries: bool) -> dict[str, Any]:
    """The notes that may be logged."""
    return {name: value for name, value in notes.items() if log_queries or name not in _TEXTS}
