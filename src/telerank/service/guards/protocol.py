"""Connections with a bound on waiting: for the headers of a request, and for a client that does not read."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from telerank.service.settings import Limits


class BoundedConfig(uvicorn.Config):
    """The configuration of a server whose connections wait no longer than ``limits`` say."""

    def __init__(self, limits: Limits, app: Any, **settings: Any) -> None:
        size = limits.header_bytes + limits.path_bytes
        super().__init__(app, http=BoundedProtocol, h11_max_incomplete_event_size=size, **settings)
        self.limits = limits


class BoundedProtocol(H11Protocol):
    """A connection that is closed if headers are not complete, or what was sent is not read, in time."""

    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._wait()
        super().data_received(data)
        if not self._is_idle:
            self._stop(self._waiting)
            self._waiting = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._waiting)
        self._stop(self._unread)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop(self._unread)
        self._unread = self.loop.call_later(self._limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._unread)

    @property
    def _limits(self) -> Limits:
        assert isinstance(self.config, BoundedConfig)
        return self.config.limits

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        """Close the connection unless the headers of a request arrive in time."""
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._limits.header_seconds, self.transport.abort)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
