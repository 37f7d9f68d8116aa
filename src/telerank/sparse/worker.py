"""Processes that make runs: ``python -m telerank.sparse.worker``, spoken to through its pipes.

They are plain children, not ``multiprocessing``'s: a program that builds an index needs no
``if __name__ == "__main__"``, and a child whose parent is gone reads the end of its input and stops.
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
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from telerank.errors import IndexFault
from telerank.text import Analyzer


class Workers:
    """``count`` processes; each stretch of documents goes to one that is idle."""

    def __init__(self, analyzer: Analyzer, count: int) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        # -P: what lies in the working folder is no module of ours
        command = [sys.executable, "-P", "-m", "telerank.sparse.worker", str(analyzer)]
        pipe = subprocess.PIPE
        self._processes = [  # in groups of their own: Ctrl-C is the parent's to answer
            subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, process_group=0)
            for _ in range(count)
        ]
        self._idle: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count)  # one waits for each process
        self._running: deque[Future[int]] = deque()
        self._made_by: list[int] = []
        for number in range(count):
            self._idle.put(number)

    def make(self, texts: Sequence[str], first_row: int, path: Path) -> None:
        """Have a run made; waits while as many stretches are waiting as there are processes."""
        self._running.append(self._threads.submit(self._make, texts, first_row, path))
        if len(self._running) >= 2 * len(self._processes):
            self._made_by.append(self._running.popleft().result())

    def finish(self) -> tuple[list[list[str]], list[int]]:
        """The vocabularies, and for each run in order whose it is."""
        while self._running:
            self._made_by.append(self._running.popleft().result())
        return [self._ask(number, None) for number in range(len(self._processes))], self._made_by

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                try:
                    _pipe(pipe).close()
                except BrokenPipeError:  # what was not sent went to a process that is gone
                    continue

    def _make(self, texts: Sequence[str], first_row: int, path: Path) -> int:
        number = self._idle.get()
        try:
            self._ask(number, (texts, first_row, path))
        finally:  # after a failure too: a stretch that waits for it is to fail, not to wait for ever
            self._idle.put(number)
        return number

    def _ask(self, number: int, request: object) -> Any:
        process = self._processes[number]
        try:
            _send(_pipe(process.stdin), request)
            answer = pickle.load(_pipe(process.stdout))  # noqa: S301 — our own child's
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise IndexFault(
                f"an analysing process ended before its work (status {process.wait()})"
            ) from error
        if isinstance(answer, BaseException):
            raise answer
        return answer


def main() -> None:
    """Answer the requests on standard input until it ends, be it in the middle of a request."""
    try:
        _answer_all()
    except (EOFError, pickle.UnpicklingError, BrokenPipeError):
        os._exit(0)  # the parent has done, or is gone: nobody reads what may still be in a buffer


def _answer_all() -> None:
    from telerank.sparse.runs import RunMaker

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not print between the answers
    maker = RunMaker(Analyzer.parse(sys.argv[1]))
    while True:
        request = pickle.load(requests)  # noqa: S301 — our own parent's
        _send(answers, maker.vocabulary if request is None else _made(maker, request))


def _made(maker: Any, request: tuple[Sequence[str], int, Path]) -> BaseException | None:
    try:
        maker.make(*request)
    except Exception as error:  # noqa: BLE001 — whatever it is, the parent raises it
        return error
    return None


def _send(pipe: IO[bytes], what: object) -> None:
    pickle.dump(what, pipe, pickle.HIGHEST_PROTOCOL)
    pipe.flush()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise IndexFault("an analysing process has no pipe")
    return pipe


if __name__ == "__main__":
    main()
