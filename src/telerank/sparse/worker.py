"""Worker processes that make runs: ``python -m telerank.sparse.worker``, reached through pipes.

They are plain subprocesses instead of those of ``multiprocessing``: a program that builds an index needs no
``if __name__ == "__main__"``, and a worker whose parent has ended reads the end of its input and stops.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any, cast

from telerank.errors import IndexFault
from telerank.sparse.runs import RunMaker
from telerank.text import Analyzer


class Workers(AbstractContextManager["Workers"]):
    """``count`` processes; an idle one takes the next stretch of documents."""

    def __init__(self, analyzer: Analyzer, count: int, *, positions: bool = False) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        # -P: modules in the working folder are not imported
        command = [sys.executable, "-P", "-m", "telerank.sparse.worker"]
        pipe = subprocess.PIPE
        self._processes = [  # in groups of their own: only the parent handles Ctrl-C
            subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, process_group=0)
            for _ in range(count)
        ]
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()  # numbers of processes
        self._threads = ThreadPoolExecutor(count)  # one for each process
        self._running: deque[Future[int]] = deque()
        self._owners: list[int] = []
        for number in range(count):
            _send(_pipe(self._processes[number].stdin), (analyzer, positions))
            self._idle.put(number)

    def make(self, texts: Sequence[str], first_row: int, path: Path) -> None:
        """Request a run; blocks while as many stretches are waiting as there are processes."""
        self._running.append(self._threads.submit(self._make, texts, first_row, path))
        if len(self._running) >= 2 * len(self._processes):
            self._owners.append(self._running.popleft().result())

    def finish(self) -> tuple[list[list[str]], list[int]]:
        """The vocabularies, and for each run in order the number of its vocabulary."""
        while self._running:
            self._owners.append(self._running.popleft().result())
        return [self._ask(number, None) for number in range(len(self._processes))], self._owners

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            with suppress(BrokenPipeError), process:  # the process ended before it read its request
                pass  # its pipes are closed, and it is waited for

    def _make(self, texts: Sequence[str], first_row: int, path: Path) -> int:
        number = self._idle.get()
        try:
            self._ask(number, (texts, first_row, path))
        finally:  # after a failure, too: a waiting stretch then fails instead of waiting for ever
            self._idle.put(number)
        return number

    def _ask(self, number: int, request: object) -> Any:
        process = self._processes[number]
        try:
            _send(_pipe(process.stdin), request)
            answer = pickle.load(_pipe(process.stdout))  # noqa: S301 — from our own child
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise IndexFault(
                f"an analysing process ended before its work (status {process.wait()})"
            ) from error
        if isinstance(answer, BaseException):
            raise answer
        return answer


def main() -> None:
    """Answer requests on standard input until it ends, even within a request."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not go between the answers
    try:
        analyzer, positions = pickle.load(requests)  # noqa: S301 — from our own parent
        maker = RunMaker(analyzer, positions=positions)
        while True:
            request = pickle.load(requests)  # noqa: S301 — from our own parent
            answer: object = maker.vocabulary if request is None else None
            try:
                if request is not None:
                    maker.make(*request)
            except Exception as error:  # noqa: BLE001 — the parent raises it
                answer = error
            _send(answers, answer)
    except (EOFError, pickle.UnpicklingError, BrokenPipeError):
        os._exit(0)  # the parent has finished or ended: nobody reads what is still in a buffer


def _send(pipe: IO[bytes], message: object) -> None:
    pickle.dump(message, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    return cast("IO[bytes]", pipe)  # every process has both


if __name__ == "__main__":
    main()
