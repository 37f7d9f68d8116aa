"""Reading files side by side, in processes that may be ended.

``python -m telerank.corpus.readers.files.processes`` is such a process. It is ended, and started anew, if a
file takes too long or makes it crash. Requests and answers are lines of JSON through pipes, which, unlike
pickled objects, cannot run anything in the process that asks.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from telerank.corpus.readers.files.kinds import read_file
from telerank.corpus.readers.files.passages import cut_passages
from telerank.corpus.readers.files.text import FileLimits, Problem, UnreadableFile

_MOST = 4  # processes: each may take as much memory as its limit


class FileProcesses(AbstractContextManager["FileProcesses"]):
    """Processes that read files within limits; they start when they are needed, and end with the block."""

    def __init__(self, limits: FileLimits, count: int | None = None) -> None:
        self._count = min(os.cpu_count() or 1, _MOST) if count is None else count
        self._idle: queue.SimpleQueue[_FileProcess] = queue.SimpleQueue()
        self._processes = [_FileProcess(limits) for _ in range(self._count)]
        for process in self._processes:
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(self._count)  # one for each process

    def read(self, requests: Iterable[Mapping[str, Any] | None]) -> Iterator[dict[str, Any]]:
        """The answer to each request, in their order; an empty one to None."""
        running: deque[Future[dict[str, Any]]] = deque()
        for request in requests:
            running.append(self._threads.submit(self._ask, request))
            if len(running) >= 2 * self._count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.close()
        self._threads.shutdown()
        for process in self._processes:
            process.end()

    def _ask(self, request: Mapping[str, Any] | None) -> dict[str, Any]:
        if request is None:
            return {}
        process = self._idle.get()
        try:
            return process.ask(request)
        finally:
            self._idle.put(process)


class _FileProcess:
    """A process that reads one file after the other, and is replaced by another one if it ends."""

    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._lock, self._is_closed = Lock(), False

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            if self._is_closed:
                return {}
            process = self._process = self._process or self._start()
        too_slow = Event()

        def stop() -> None:
            too_slow.set()
            process.kill()

        timer = Timer(self._limits.seconds, stop)
        timer.daemon = True
        timer.start()
        line = _exchange(process, json.dumps({**request, "limits": asdict(self._limits)}).encode() + b"\n")
        timer.cancel()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = _end(process)
        self._process = None
        if too_slow.is_set():
            return {"problem": Problem.too_slow, "reason": f"more than {self._limits.seconds:g} seconds"}
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return {"problem": Problem.broken, "reason": f"the process that read it ended with {how}"}

    def close(self) -> None:
        """End the process, if it runs; what it was asked is not answered."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """Wait for the end of the closed process."""
        if self._process is not None:
            _end(self._process)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        # -P: modules in the working folder are not imported
        module = "telerank.corpus.readers.files.processes"
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(self._limits.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries print about files
            env=environment,
            process_group=0,  # only this process handles Ctrl-C
        )


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process, close its pipes, and return its status."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # it ended before it read its request
                pipe.close()
    return process.wait()


def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """The line that answers a request; no whole line if the process ended before."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("a process without pipes")
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return b""
    return process.stdout.readline()


_SHOWN = 200  # characters of a reason


def main() -> None:
    """Answer requests on standard input until it ends; the first argument is the limit of memory in bytes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints must not go between the answers
    logging.disable(logging.CRITICAL)  # what libraries log about files
    _limit_memory(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _limit_memory(limit: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "darwin":  # which has no such limit
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The passages of a file and what was left out, or the problem with it."""
    try:
        file = read_file(Path(request["path"]), request["encoding"], FileLimits(**request["limits"]))
        return {"counts": dict(file.counts), "passages": cut_passages(file, request["words"])}
    except UnreadableFile as error:
        return _problem(error.problem, error.reason)
    except MemoryError:
        return _problem(Problem.too_large, "reading it takes too much memory")
    except OSError as error:
        return _problem(Problem.broken, error.strerror or str(error))
    except Exception as error:  # noqa: BLE001 — libraries raise anything about hostile files
        return _problem(Problem.broken, f"{type(error).__name__}: {error}")


def _problem(problem: Problem, reason: str) -> dict[str, Any]:
    return {"problem": problem, "reason": " ".join(reason.split())[:_SHOWN]}


if __name__ == "__main__":
    main()
