"""The processes of the service, and their connections.

There is one process, or several that share a socket and the memory-mapped indexes.

The first process binds the socket. With several, it computes nothing itself: it starts the others, replaces
one that dies, and ends them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from telerank.errors import CollectionError, TelerankError
from telerank.service.errors import BadRequest, Overloaded, ServiceError, error_body
from telerank.service.gate import TrustedProxies
from telerank.service.observe import FOLDER_VARIABLE, Readiness, configure_logs
from telerank.service.settings import ServiceSettings

_log = logging.getLogger(__name__)
# exit statuses: of a process that could not open what it serves, and of one that an exception has ended
_FAILED, _RAISED = 3, 1
_LOOK = 0.5  # seconds between two looks at the processes
# Seconds after which a thread that searches yields to the event loop, which gives up the interpreter's lock
# with everything that it reads or sends, and would wait for 5 milliseconds each time.
_SWITCH = 0.0005
_YOUNG, _LONGEST_PAUSE = 10.0, 30.0  # seconds: a process that dies so young is replaced after a pause


def run_service(settings: ServiceSettings) -> None:
    """Serve until the process is ended by SIGTERM or Ctrl-C; open requests are answered before.

    Raises
    ------
    CollectionError
        If the address cannot be listened on.
    TelerankError, OSError
        If something that is served cannot be opened.
    """
    configure_logs()
    listening = listen(settings)
    fields = {"host": settings.host, "port": listening.getsockname()[1], "processes": settings.workers}
    _log.info("listening", extra={"fields": fields})
    if settings.workers == 1:
        run_process(settings, listening)
        return
    with TemporaryDirectory(prefix="telerank-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder  # before prometheus_client is imported, here and in processes
        try:
            supervise(settings, listening)
        finally:
            del os.environ[FOLDER_VARIABLE]


def listen(settings: ServiceSettings) -> socket.socket:
    """A socket that listens on the address of the settings; raises CollectionError if it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(2048)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise CollectionError(f"serve: cannot listen on {where}: {error.strerror}") from error
    listening.set_inheritable(True)
    return listening


def run_process(
    settings: ServiceSettings, listening: socket.socket, readiness: Readiness | None = None
) -> None:
    """Serve in this process; raises what :func:`run_service` does."""
    from telerank.service.app import create_app

    app = create_app(settings, readiness)
    server = uvicorn.Server(
        BoundedConfig(
            settings,
            app,
            timeout_graceful_shutdown=max(1, round(settings.grace)),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
        )
    )

    def end(*_: object) -> None:
        server.should_exit = True

    # the server ends if the process is asked to, or the process that started it dies
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)  # uvicorn raises the signal again when it has ended
    if parent := multiprocessing.parent_process():

        def follow() -> None:
            parent.join()
            end()

        threading.Thread(target=follow, daemon=True).start()
    app.state.when_ready, app.state.give_up = _freeze, end
    sys.setswitchinterval(_SWITCH)
    server.run([listening])
    if app.state.failure is not None:
        raise app.state.failure


def _freeze() -> None:
    """Take everything that is loaded out of later garbage collections: they would halt requests."""
    gc.collect()
    gc.freeze()


def supervise(settings: ServiceSettings, listening: socket.socket) -> None:
    """Start the processes, replace those that die, and end them when this process is asked to end.

    Raises
    ------
    TelerankError
        If a process cannot open what it serves, and none ever could.
    """
    readiness, stopping = Readiness(settings.workers), threading.Event()
    started: dict[SpawnProcess, float] = {}  # the processes, and when each was started
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    pause = start_at = 0.0
    context = multiprocessing.get_context("spawn")
    try:
        while not stopping.is_set():
            for process in [process for process in started if not process.is_alive()]:
                is_young = time.monotonic() - started.pop(process) < _YOUNG
                pause = min(max(2 * pause, 0.5), _LONGEST_PAUSE) if is_young else 0.0
                start_at = time.monotonic() + pause
                _log_death(process, pause, readiness)
            while len(started) < settings.workers and time.monotonic() >= start_at:
                process = context.Process(
                    target=_work, args=(settings, listening, readiness), name="telerank"
                )
                process.start()
                started[process] = time.monotonic()
            wait([process.sentinel for process in started], timeout=_LOOK)
    finally:
        # open requests are answered before the processes end
        listening.close()
        for process in started:
            process.terminate()
        until = time.monotonic() + settings.grace + 5
        for process in started:
            process.join(max(0.1, until - time.monotonic()))
            process.kill()
            process.join()


def _log_death(process: SpawnProcess, pause: float, readiness: Readiness) -> None:
    """Log that a process died; raise TelerankError if it could not open what no process has opened."""
    from prometheus_client.multiprocess import mark_process_dead

    if process.pid is not None:  # its gauges are numbers of the service no more
        mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
    if process.exitcode in (_FAILED, _RAISED) and not readiness.is_complete:
        raise TelerankError("serve: what is to be served cannot be opened; the log says why")
    _log.error(
        "process died",
        extra={"fields": {"process": process.pid, "status": process.exitcode, "pause": pause}},
    )


def _work(settings: ServiceSettings, listening: socket.socket, readiness: Readiness) -> None:
    """One of several processes."""
    configure_logs()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // settings.workers)))
    try:
        run_process(settings, listening, readiness)
    except (TelerankError, OSError) as error:
        _log.error("%s", error)
        sys.exit(_FAILED)


_END = re.compile(rb"\n\r?\n")
_LENIENT = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a line that ends without CR, or continues the line before


class BoundedConfig(uvicorn.Config):
    """The configuration of a server whose connections are bounded by the limits of ``settings``."""

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
    is_dropped = False
    _timers: dict[str, asyncio.TimerHandle]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = StrictConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self._timers = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began, limits = self.loop.time(), self.config.limits
        self._close_after("headers", limits.header_seconds)
        if self.address in self.config.proxies:
            return
        # one that ends counts until all of its reply is read, but not if it was ended to make room
        connections: Iterable[Any] = self.connections - {self}
        siblings = [each for each in connections if each.address == self.address and not each.is_dropped]
        most = limits.connections_per_address
        if len(siblings) < most:
            return
        unread = [each for each in siblings if each.is_idle or each.cycle.more_body]
        dropped = min(unread, key=lambda each: each.began) if unread else self
        dropped.is_dropped = True
        if unread:
            dropped.transport.abort()
        else:
            self._reply(Overloaded(f"{most:,} connections of {self.address} are open: try again"))

    def data_received(self, data: bytes) -> None:
        if self.is_idle:
            self._close_after("headers", self.config.limits.header_seconds)
        super().data_received(data)
        if not self.is_idle:
            self._keep("headers")

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep("headers", "unread")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._close_after("unread", self.config.limits.seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._keep("unread")

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()  # uvicorn catches it, and says of all of them the same
        self._reply(BadRequest(f"HTTP: {error}" if isinstance(error, h11.RemoteProtocolError) else msg))

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _reply(self, error: ServiceError) -> None:
        """Close the connection, with an error unless a reply was begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(error_body(str(error), error.error_type)).encode()
            response = h11.Response(
                status_code=error.status,
                headers=[
                    ("Content-Type", "application/json"),
                    ("Content-Length", str(len(body))),
                    *error.headers.items(),
                    ("Connection", "close"),
                ],
                reason=HTTPStatus(error.status).phrase.encode(),
            )
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _close_after(self, what: str, seconds: float) -> None:
        """Close the connection after some time, counted from the first call, unless it is kept."""
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, self.transport.abort)

    def _keep(self, *reasons: str) -> None:
        for reason in reasons:
            if timer := self._timers.pop(reason, None):
                timer.cancel()
