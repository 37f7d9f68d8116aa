"""Training triples as MS MARCO ships them, streamed: a group of two for each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from telerank.corpus.readers.msmarco import Triple, read_triples
from telerank.errors import CollectionError
from telerank.training.reranker.groups import Group, shuffled
from telerank.types import Progress, silent

_LINES = 4096  # as many are in memory, or two windows: a batch may lie across many small ones


@dataclass(eq=False)
class TripleGroups:
    """The lines of ``path`` that ``wanted`` lets pass, each made a group by ``group``.

    A window of lines is in memory with the one before it, and its order is the seed's. Groups are best asked
    for in rising order, or a batch ahead: the file is read on from where it is, and from its beginning where
    an earlier window is asked for.
    """

    path: Path
    group: Callable[[Triple], Group]
    wanted: Callable[[Triple], bool]
    window: int
    seed: int
    encoding: str = "utf-8"
    progress: Progress = silent
    _total: int | None = field(default=None, init=False)
    _at: int = field(default=-1, init=False)  # the number of the window that was read last
    _held: dict[int, list[Triple]] = field(default_factory=dict, init=False)  # the last windows, by number
    _stream: Iterator[Triple] = field(default_factory=lambda: iter(()), init=False)

    def __len__(self) -> int:
        if self._total is None:
            count = 0
            for count, _ in enumerate(self._lines(), 1):
                if count % 1_000_000 == 0:
                    self.progress("counting triples", count, None)
            self._total = self._some(count)
        return self._total

    @property
    def stretch(self) -> int:
        return self.window

    @property
    def counted(self) -> bool:
        """Whether the length is known, so that asking for it reads nothing."""
        return self._total is not None

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        if self._total is None:
            self._read(number // self.window)
        epoch, within = divmod(number, self._total) if self._total is not None else (0, number)
        window, place = divmod(within, self.window)
        held = self._read(window)
        return self.group(held[int(shuffled(len(held), self.seed, epoch, window)[place])])

    def _read(self, window: int) -> list[Triple]:
        """The lines of a window; none where the file ends before it, whose lines have then been counted."""
        if window in self._held:
            return self._held[window]
        if window < self._at or self._at < 0:
            self._at, self._stream = -1, self._lines()
        while self._at < window:
            lines = list(islice(self._stream, self.window))
            if len(lines) < self.window and self._total is None:
                self._total = self._some((self._at + 1) * self.window + len(lines))
            if not lines:
                self._at = -1  # the stream is at its end: the next window is read from the beginning
                return lines
            self._at += 1
            self._hold(lines)
        return self._held[window]

    def _hold(self, lines: list[Triple]) -> None:
        """Keep what was read last; the window that was read first goes."""
        self._held.pop(self._at, None)
        self._held[self._at] = lines
        if len(self._held) > max(2, -(-_LINES // self.window)):
            del self._held[next(iter(self._held))]

    def _lines(self) -> Iterator[Triple]:
        return filter(self.wanted, read_triples(self.path, self.encoding))

    def _some(self, count: int) -> int:
        if not count:
            raise CollectionError(f"{self.path}: no triple to learn from")
        return count
