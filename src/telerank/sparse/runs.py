"""Runs: the postings of a stretch of documents, inverted in memory and kept on disk until they are folded."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from telerank.text import Analyzer

_DROPPED = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Run:
    """Postings by term: ``counts[i]`` of them belong to the term ``ids[i]`` of one vocabulary."""

    ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    tfs: npt.NDArray[np.int32]

    def save(self, path: Path, lengths: npt.NDArray[np.int32]) -> None:
        """Write the run, and the lengths of its documents."""
        with path.open("wb") as file:
            for values in (*astuple(self), lengths):
                np.save(file, values)

    @classmethod
    def load(cls, path: Path) -> tuple[Run, npt.NDArray[np.int32]]:
        with path.open("rb") as file:
            ids, counts, rows, tfs, lengths = (np.load(file) for _ in range(5))
        return cls(ids, counts, rows, tfs), lengths


class RunMaker:
    """Analyses and inverts stretches of documents, numbering terms as they come; keep one for a build.

    Memory: the vocabulary, and some 12 bytes for each token of the stretch at hand.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._numbers = _Numbers(analyzer)

    @property
    def vocabulary(self) -> list[str]:
        """The terms by their numbers."""
        return list(self._numbers.of_term)

    def make(self, texts: Sequence[str], first_row: int, path: Path) -> None:
        """Write the run of texts that are the documents ``first_row`` and on."""
        number, tokens = self._numbers.__getitem__, self._analyzer.tokens
        numbers, ends = array("I"), array("q")
        for text in texts:
            numbers.extend(map(number, tokens(text)))
            ends.append(len(numbers))
        size = len(self._numbers.of_term)
        # array() may be empty, and frombuffer refuses an empty buffer
        flat = np.frombuffer(numbers, np.uint32) if numbers else np.empty(0, np.uint32)
        lengths, counts, rows, tfs = _invert(flat, np.frombuffer(ends, np.int64), first_row, size)
        ids = np.flatnonzero(counts)
        Run(ids, counts[ids], rows, tfs).save(path, lengths)


class _Numbers(dict[str, int]):
    """Surface token -> number of its term; a token is analysed when it is first seen."""

    _most = 1 << 21  # tokens remembered: some 200 MB

    def __init__(self, analyzer: Analyzer) -> None:
        self._term = analyzer.term
        self.of_term: dict[str, int] = {}

    def __missing__(self, token: str) -> int:
        if len(self) >= self._most:
            self.clear()
        term = self._term(token)
        number = self.of_term.setdefault(term, len(self.of_term)) if term else _DROPPED
        self[token] = number
        return number


@nb.njit(cache=True)
def _invert(tokens: Any, ends: Any, first_row: int, size: int) -> tuple[Any, Any, Any, Any]:
    """Lengths (documents,), postings of each term (size,), and the postings' rows and frequencies by term."""
    lengths, counts = np.zeros(len(ends), np.int32), np.zeros(size, np.int64)
    last = np.full(size, -1, np.int64)
    start = 0
    for doc in range(len(ends)):
        for i in range(start, ends[doc]):
            term = tokens[i]
            if term != _DROPPED:
                lengths[doc] += 1
                if last[term] != doc:
                    last[term] = doc
                    counts[term] += 1
        start = ends[doc]
    places = np.cumsum(counts) - counts
    rows, tfs = np.empty(counts.sum(), np.int32), np.zeros(counts.sum(), np.int32)
    last[:] = -1
    start = 0
    for doc in range(len(ends)):
        for i in range(start, ends[doc]):
            term = tokens[i]
            if term != _DROPPED:
                if last[term] != doc:
                    last[term] = doc
                    rows[places[term]] = first_row + doc
                    places[term] += 1
                tfs[places[term] - 1] += 1
        start = ends[doc]
    return lengths, counts, rows, tfs
