"""The child's side of the commands, for engines that Python speaks to."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

Hits = tuple[np.ndarray, np.ndarray]


class Engine(ABC):
    """What an engine does at each command; queries and documents are terms with blanks between."""

    version: str

    @abstractmethod
    def build(self, documents: Path, folder: Path) -> None: ...

    @abstractmethod
    def open(self, folder: Path) -> None: ...

    @abstractmethod
    def search(self, queries: list[str], k: int, model: str) -> tuple[list[int], list[Hits]]:
        """Nanoseconds, and rows and scores, of each query."""


def serve(engine: Engine) -> None:
    """Answers commands until there are none."""
    _say("ok", engine.version)
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        start = time.perf_counter()
        try:
            if verb == "build":
                engine.build(Path(words[0]), Path(words[1]))
            elif verb == "open":
                engine.open(Path(words[0]))
            else:
                queries = Path(words[0]).read_text(encoding="utf-8").split("\n")[:-1]
                _write(Path(words[3]), *engine.search(queries, int(words[1]), words[2]))
        except Exception as error:  # noqa: BLE001 — the driver is told, whatever it is
            _say("error", f"{type(error).__name__}: {error}")
        else:
            _say("ok", repr(time.perf_counter() - start))


def _say(*words: str) -> None:
    print("\t".join(words).replace("\n", " "), flush=True)


def _write(path: Path, times: list[int], hits: list[Hits]) -> None:
    counts = [len(rows) for rows, _ in hits]
    with path.open("wb") as file:
        np.array([len(hits), sum(counts)], ">i8").tofile(file)
        np.array(times, ">i8").tofile(file)
        np.array(counts, ">i4").tofile(file)
        for rows, _ in hits:
            rows.astype(">i4").tofile(file)
        for _, scores in hits:
            scores.astype(">f4").tofile(file)
