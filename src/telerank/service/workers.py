"""The processes of the service: one, or several that share a socket and the memory-mapped indexes.

The first process binds the socket. With several, it computes nothing itself: it starts the others, replaces
one that dies, and ends them.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn

from telerank.errors import CollectionError, TelerankError
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
            Supervisor(settings, listening).run()
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
    from telerank.service.connections import BoundedConfig

    app = create_app(settings, readiness)
    config = BoundedConfig(
        settings,
        app,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
    )
    server = uvicorn.Server(config)

    def freeze() -> None:
        """Take everything that is loaded out of later garbage collections: they would halt requests."""
        gc.collect()
        gc.freeze()

    app.state.when_ready = freeze

    def end(*_: object) -> None:
        server.should_exit = True

    # the server ends if the process is asked to, or the process that started it dies
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)  # uvicorn raises the signal again when it has ended
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            end()

        threading.Thread(target=follow, daemon=True).start()
    app.state.give_up = end
    sys.setswitchinterval(_SWITCH)
    server.run([listening])
    if app.state.failure is not None:
        raise app.state.failure


class Supervisor:
    """Starts the processes, replaces those that die, and ends them."""

    def __init__(self, settings: ServiceSettings, listening: socket.socket) -> None:
        self.settings, self.listening = settings, listening
        self.readiness = Readiness(settings.workers)
        self._stopping = False
        self._pause, self._start_at = 0.0, 0.0
        self._started: dict[SpawnProcess, float] = {}  # the processes, and when each was started

    def run(self) -> None:
        """Serve until this process is asked to end.

        Raises
        ------
        TelerankError
            If a process cannot open what it serves, and none ever could.
        """

        def stop(*_: object) -> None:
            self._stopping = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        try:
            while not self._stopping:
                self._replace_dead()
                wait([process.sentinel for process in self._started], timeout=_LOOK)
        finally:
            # open requests are answered before the processes end
            self.listening.close()
            for process in self._started:
                process.terminate()
            until = time.monotonic() + self.settings.grace + 5
            for process in self._started:
                process.join(max(0.1, until - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()

    def _replace_dead(self) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        now = time.monotonic()
        for process in [process for process in self._started if not process.is_alive()]:
            since, status = self._started.pop(process), process.exitcode
            if process.pid is not None:  # its gauges are numbers of the service no more
                mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            if status in (_FAILED, _RAISED) and not self.readiness.is_complete:
                raise TelerankError("serve: what is to be served cannot be opened; the log says why")
            self._pause = min(max(2 * self._pause, 0.5), _LONGEST_PAUSE) if now - since < _YOUNG else 0.0
            self._start_at = now + self._pause
            fields = {"process": process.pid, "status": status, "pause": self._pause}
            _log.error("process died", extra={"fields": fields})
        while len(self._started) < self.settings.workers and now >= self._start_at:
            context = multiprocessing.get_context("spawn")
            process = context.Process(
                target=_work, args=(self.settings, self.listening, self.readiness), name="telerank"
            )
            process.start()
            self._started[process] = time.monotonic()


def _work(settings: ServiceSettings, listening: socket.socket, readiness: Readiness) -> None:
    """One of several processes."""
    configure_logs()
    affinity: Any = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // settings.workers)))
    try:
        run_process(settings, listening, readiness)
    except (TelerankError, OSError) as error:
        _log.error("%s", error)
        sys.exit(_FAILED)
