"""Connections: strict HTTP, bounds on waiting, and on the connections of an address."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from telerank.service.errors import BadRequest, Overloaded, ServiceError, error_body
from telerank.service.gate import TrustedProxies
from telerank.service.settings import ServiceSettings

_END = re.compile(rb"\n\r?\n")
_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a line that ends without CR, or continues the line before


class BoundedConfig(uvicorn.Config):
    """The configuration of a server whose connections are bounded by the limits of ``settings``.

    ``clients`` are the open connections by the address of their client, the oldest first.
    """

    def __init__(self, settings: ServiceSettings, app: Any, **more: Any) -> None:
        limits, proxies = settings.limits, settings.trusted_proxies
        super().__init__(
            app,
            http=BoundedProtocol,
            h11_max_incomplete_event_size=limits.header_bytes + limits.path_bytes,
            ws="none",
            forwarded_allow_ips=list(proxies),
            **more,
        )
        self.limits, self.proxies = limits, TrustedProxies(proxies)
        self.clients: dict[str, dict[BoundedProtocol, None]] = {}


class StrictConnection(h11.Connection):
    """Refuses requests that proxies read in several ways: one could be hidden in another."""

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """The next event; raises RemoteProtocolError for what is refused."""
        if self.their_state is h11.IDLE:
            received = self.trailing_data[0]
            end = _END.search(received)
            if end is not None and _LENIENT.search(received, 0, end.end()):
                raise h11.RemoteProtocolError("a header line is folded, or ends without CR")
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version < b"1.1"):
                raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or in HTTP/1.0")
        elif isinstance(event, h11.EndOfMessage) and event.headers:
            raise h11.RemoteProtocolError("headers after the body")
        return event


class BoundedProtocol(H11Protocol):
    """A connection that is closed if headers are not complete, or what was sent is not read, in time.

    A client that has as many connections as it may loses the oldest one whose request is not complete, and
    gets another one only then.
    """

    config: BoundedConfig
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = StrictConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        config, address = self.config, self._address
        if address in config.proxies:
            return
        siblings = config.clients.setdefault(address, {})
        most = config.limits.connections_per_address
        if len(siblings) >= most:
            oldest = next((s for s in siblings if s.is_idle or s.cycle.more_body), None)
            if oldest is None:
                self._reply(Overloaded(f"{most:,} connections of {address} are open: try again"))
                return
            del siblings[oldest]
            oldest.transport.abort()
        siblings[self] = None

    def data_received(self, data: bytes) -> None:
        if self.is_idle:
            self._wait()
        super().data_received(data)
        if not self.is_idle:
            _stop(self._waiting)
            self._waiting = None

    def connection_lost(self, exc: Exception | None) -> None:
        _stop(self._waiting, self._unread)
        siblings = self.config.clients.get(self._address, {})
        siblings.pop(self, None)
        if not siblings:
            self.config.clients.pop(self._address, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        _stop(self._unread)
        self._unread = self.loop.call_later(self.config.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _stop(self._unread)

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()  # uvicorn catches it, and says of all of them the same
        self._reply(BadRequest(f"HTTP: {error}" if isinstance(error, h11.RemoteProtocolError) else msg))

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _reply(self, error: ServiceError) -> None:
        """Close the connection, with an error unless a reply was begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(error_body(str(error), error.error_type)).encode()
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **error.headers}
            response = h11.Response(
                status_code=error.status,
                headers=[*headers.items(), ("Connection", "close")],
                reason=HTTPStatus(error.status).phrase.encode(),
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _wait(self) -> None:
        """Close the connection unless the headers of a request arrive in time."""
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.config.limits.header_seconds, self.transport.abort)


def _stop(*timers: asyncio.TimerHandle | None) -> None:
    for timer in filter(None, timers):
        timer.cancel()
