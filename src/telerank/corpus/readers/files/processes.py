"""Reading files side by side, in processes that may be ended.

``python -m telerank.corpus.readers.files.processes`` is such a process. It is ended, and started anew, if a
file takes too long or makes it crash. Requests and answers are lines of JSON through pipes, which, unlike
pickled objects, cannot run anything in the process that asks. There the text of a file is cut into passages,
too, between paragraphs and sentences, and at headings.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from itertools import takewhile
from operator import attrgetter, itemgetter
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any, NamedTuple, TypeAlias

from telerank.corpus.readers.files.text import (
    FileLimits,
    FileText,
    Problem,
    UnreadableFile,
    read_file,
)
from telerank.errors import ArgumentError
from telerank.text.sentences import split_sentences
from telerank.text.steps import stop_words
from telerank.types import Mark

_MOST = 4  # processes: each may take as much memory as its limit
_FileProcess: TypeAlias = "subprocess.Popen[bytes]"


class FileProcesses(AbstractContextManager["FileProcesses"]):
    """Processes that read files within limits; they start when they are needed, and end with the block."""

    def __init__(self, limits: FileLimits, count: int | None = None) -> None:
        self._limits = limits
        self._count = min(os.cpu_count() or 1, _MOST) if count is None else count
        self._threads = ThreadPoolExecutor(self._count)  # one for each process
        self._idle: queue.SimpleQueue[_FileProcess] = queue.SimpleQueue()
        self._lock, self._is_closed = Lock(), False
        self._processes = set[_FileProcess]()  # that run

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
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                process.kill()  # what it was asked is not answered
        self._threads.shutdown()
        for process in self._processes:
            _end(process)

    def _ask(self, request: Mapping[str, Any] | None) -> dict[str, Any]:
        """The answer of an idle process, or of a new one; one that ended is not idle again."""
        with self._lock:
            if request is None or self._is_closed:
                return {}
            process = self._start() if self._idle.empty() else self._idle.get()
            self._processes.add(process)
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
            self._idle.put(process)
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = _end(process)
        with self._lock:
            self._processes.remove(process)
        if too_slow.is_set():
            return {"problem": Problem.too_slow, "reason": f"more than {self._limits.seconds:g} seconds"}
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return {"problem": Problem.broken, "reason": f"the process that read it ended with {how}"}

    def _start(self) -> _FileProcess:
        # -P: modules in the working folder are not imported
        command = [sys.executable, "-P", "-m", "telerank.corpus.readers.files.processes"]
        return subprocess.Popen(
            [*command, str(self._limits.memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries print about files
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            process_group=0,  # only this process handles Ctrl-C
        )


def _end(process: _FileProcess) -> int:
    """End a process, close its pipes, and return its status."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # it ended before it read its request
                pipe.close()
    return process.wait()


def _exchange(process: _FileProcess, request: bytes) -> bytes:
    """The line that answers a request; no whole line if the process ended before."""
    if process.stdin is None or process.stdout is None:
        raise ArgumentError("a process without pipes")
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
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if sys.platform != "darwin":  # which has no limit of memory
            limit, hard = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")
        answers.flush()


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The passages of a file and what was left out, the rows of a ``sheet``, or the problem with it."""
    try:
        if "sheet" in request:
            from telerank.corpus.readers.judged import find_columns, is_judged
            from telerank.corpus.readers.sheets import read_sheet

            return read_sheet(Path(request["sheet"]), lambda row: is_judged(find_columns(row)))
        file = read_file(Path(request["path"]), request["encoding"], FileLimits(**request["limits"]))
        passages = cut_passages(file, request["words"])
        return {"counts": dict(file.counts), "passages": passages, "properties": dict(file.properties)}
    except UnreadableFile as error:
        problem, reason = error.problem, error.reason
    except MemoryError:
        problem, reason = Problem.too_large, "reading it takes too much memory"
    except OSError as error:
        problem, reason = Problem.broken, error.strerror or str(error)
    except Exception as error:  # noqa: BLE001 — libraries raise anything about hostile files
        problem, reason = Problem.broken, f"{type(error).__name__}: {error}"
    return {"problem": problem, "reason": " ".join(reason.split())[:_SHOWN]}


# Words of a passage at most: with a question, they fit into the 512 tokens that most models read.
PASSAGE_WORDS = 200
# What stands between a heading and one below it.
BELOW = " › "
_WORD = re.compile(r"\S+")
_LANGUAGES = {"en": "english", "fr": "french"}
_LOOKED_AT = 20_000  # characters whose words tell the language


class FilePassage(NamedTuple):
    """A passage of a file, or all of it; ``marks`` are those of its own text."""

    title: str
    text: str
    marks: tuple[Mark, ...]


# Where a heading begins, and its text with those above it, the highest first.
_Heading: TypeAlias = tuple[int, tuple[str, ...]]


class _Unit(NamedTuple):
    """What is never cut: a paragraph, a heading, or a sentence of a long paragraph.

    ``begins`` is set if a section or a page begins with it.
    """

    start: int
    end: int
    words: int
    is_heading: bool = False
    begins: bool = False


def cut_passages(file: FileText, words: int | None = PASSAGE_WORDS) -> list[FilePassage]:
    """The passages of a file, each of at most ``words`` words; None leaves it whole.

    A file that is no longer is one passage with every character of its text. A passage ends before a heading
    or a page once it has half of the words, and never with a heading if the text below it fits. Its title is
    that of the file and the headings above its beginning.
    """
    headings = list(_read_headings(file))
    marks = _mark(headings, file.pages)
    if words is None or _count(file.text) <= words:
        return [FilePassage(file.title, file.text, marks)]
    return [
        FilePassage(_title(file.title, headings, start), file.text[start:end], _cut_marks(marks, start, end))
        for start, end in _group(_units(file, words), words)
    ]


def _read_headings(file: FileText) -> Iterator[_Heading]:
    path: list[tuple[int, str]] = []  # the levels and the texts of the heading and those above it
    for start, end, level in file.parts:
        if level:
            path = [outer for outer in path if outer[0] < level]
            path.append((level, " ".join(file.text[start:end].split())))
            yield start, tuple(text for _, text in path)


def _mark(headings: Sequence[_Heading], pages: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
    """A mark wherever the page or the heading changes."""
    paths, numbers = {start: BELOW.join(path) for start, path in headings}, dict(pages)
    marks: list[Mark] = []
    page, path = 0, ""
    for start in sorted({*paths, *numbers}):
        page, path = numbers.get(start, page), paths.get(start, path)
        if not marks or marks[-1][1:] != (page, path):
            marks.append(Mark(start, page, path))
    return tuple(marks)


def _cut_marks(marks: Sequence[Mark], start: int, end: int) -> tuple[Mark, ...]:
    """The marks of the characters ``start`` to ``end``, as those of a text of their own."""
    first = bisect_right(marks, start, key=attrgetter("start")) - 1
    last = bisect_left(marks, end, key=attrgetter("start"))
    return tuple(Mark(max(mark.start - start, 0), *mark[1:]) for mark in marks[max(first, 0) : last])


def _title(title: str, headings: Sequence[_Heading], start: int) -> str:
    """The title of a passage: the file's, and the headings above its first character."""
    number = bisect_right(headings, start, key=itemgetter(0)) - 1
    if number < 0:
        return title
    begin, path = headings[number]
    path = path[:-1] if begin == start else path  # its own heading is in its text
    return BELOW.join((title, *path) if title and path[:1] != (title,) else path)


def _units(file: FileText, words: int) -> Iterator[_Unit]:
    # the language of most stop words decides how the sentences of long paragraphs are split
    some = re.findall(r"\w+", file.text[:_LOOKED_AT].casefold())
    language = max(_LANGUAGES, key=lambda name: sum(word in stop_words(_LANGUAGES[name]) for word in some))
    pages = {start for start, _ in file.pages}
    for start, end, level in file.parts:
        count = _count(file.text[start:end])
        if count <= words:
            yield _Unit(start, end, count, level > 0, level > 0 or start in pages)
            continue
        for first, last in split_sentences(file.text[start:end], language, wrapped=False):
            # a sentence, in stretches of as many words if it is longer
            spans = [match.span() for match in _WORD.finditer(file.text, start + first, start + last)]
            for number in range(0, len(spans), words):
                own = spans[number : number + words]
                yield _Unit(own[0][0], own[-1][1], len(own))


def _group(units: Iterable[_Unit], words: int) -> Iterator[tuple[int, int]]:
    """The first and the last character of each passage."""
    held: list[_Unit] = []
    for unit in units:
        count = sum(unit.words for unit in held)
        if held and (count + unit.words > words or (unit.begins and 2 * count >= words)):
            moved = [*takewhile(attrgetter("is_heading"), reversed(held))][::-1]
            if len(moved) == len(held) or sum(unit.words for unit in moved) + unit.words > words:
                moved = []
            yield held[0].start, held[len(held) - len(moved) - 1].end
            held = moved
        held.append(unit)
    if held:
        yield held[0].start, held[-1].end


def _count(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))


if __name__ == "__main__":
    main()
