"""A peer as its driver sees it: a child process, pinned to one core, that obeys three commands.

Commands and answers are lines of words with tabs between: ``build documents folder``, ``open folder``,
``search queries k model answers`` (all but ``k`` and ``model`` are paths); ``ok seconds`` or ``error what``.
What a search found is written big-endian, as Java does: the number of queries n and of hits h (int64), then
nanoseconds (int64, n), hits of each query (int32, n), rows (int32, h), scores (float32, h).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from peers import lucene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Built:
    """An index on disk, made from a file of analysed documents; reading that file is part of the time."""

    documents: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    disk_bytes: int

    @property
    def documents_per_second(self) -> float:
        """Per second of one core's time."""
        return self.documents / self.cpu_seconds


@dataclass(frozen=True)
class Found:
    """Per query: nanoseconds from the analysed terms to the hits, rows best first, and their scores."""

    times: np.ndarray
    rows: tuple[np.ndarray, ...]
    scores: tuple[np.ndarray, ...]


class Peer:
    """One engine's process."""

    def __init__(self, name: str, command: Sequence[str], core: int | str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": os.pathsep.join(map(str, (HERE.parent, *sys.path)))},
        )
        self.version = self._answer()

    def build(self, documents: Path, folder: Path) -> Built:
        before = self._cpu_seconds()
        seconds = float(self._ask("build", documents, folder))
        with documents.open("rb") as lines:
            count = sum(1 for _ in lines)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return Built(count, seconds, self._cpu_seconds() - before, self.peak_bytes(), size)

    def open(self, folder: Path) -> None:
        self._ask("open", folder)

    def search(self, queries: Sequence[Sequence[str]], k: int, model: str) -> Found:
        """Raises ``RuntimeError`` where the engine has no such model."""
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = Path(folder) / "queries.txt", Path(folder) / "found.bin"
            asked.write_text("".join(" ".join(terms) + "\n" for terms in queries), encoding="utf-8")
            self._ask("search", asked, k, model, answered)
            return read_found(answered)

    def peak_bytes(self) -> int:
        """The most memory that the process has held so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def close(self) -> None:
        with self._process:  # closes its input, at which it ends, and waits
            pass

    def _cpu_seconds(self) -> float:
        """Its own and those of children that have ended."""
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _ask(self, *words: object) -> str:
        stdin = self._process.stdin
        if stdin is None:
            raise RuntimeError(f"{self.name} was not started")
        stdin.write("\t".join(map(str, words)) + "\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        kind, _, rest = line.rstrip("\n").partition("\t")
        if kind != "ok":
            raise RuntimeError(f"{self.name}: {rest or line or 'the process ended'}")
        return rest


def read_found(path: Path) -> Found:
    with path.open("rb") as file:
        queries, hits = np.fromfile(file, ">i8", 2)
        times = np.fromfile(file, ">i8", queries).astype(np.int64)
        ends = np.cumsum(np.fromfile(file, ">i4", queries))[:-1]
        rows = np.fromfile(file, ">i4", hits).astype(np.int64)
        scores = np.fromfile(file, ">f4", hits).astype(np.float32)
    return Found(times, tuple(np.split(rows, ends)), tuple(np.split(scores, ends)))


def _python(module: str, *arguments: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"peers.{module}", *arguments]


PEERS: dict[str, Callable[[], list[str]]] = {
    "lucene": lucene.command,
    "bm25s": _python("bm25s_child"),
    "bm25s-batch": _python("bm25s_child", "--batch"),
    "tantivy": _python("tantivy_child"),
    "lucene-text": lambda: [*lucene.command(), "--text"],
    "bm25s-text": _python("bm25s_child", "--text"),
    "tantivy-text": _python("tantivy_child", "--text"),
    "telerank": _python("telerank_child", "1"),
    "telerank-rows": _python("telerank_child", "1", "--rows"),
    "telerank-2": _python("telerank_child", "2"),
}
"""What starts each. ``telerank`` is given texts, to build from and as queries; ``telerank-2`` has 2 threads.
``telerank-rows`` answers with row numbers, as the peers do, and not yet with docnos.
``bm25s-batch`` is asked all queries in one call, so that its times are all the mean.

The ``-text`` ones build from texts as they are, by their own English analysis: for build times only.
"""


@contextmanager
def open_peer(name: str, core: int | str) -> Iterator[Peer]:
    peer = Peer(name, PEERS[name](), core)
    try:
        yield peer
    finally:
        peer.close()
