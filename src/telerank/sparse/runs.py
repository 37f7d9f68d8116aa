"""Runs: the postings of a stretch of documents, inverted in memory and kept on disk until folding."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.npy import load_npy
from telerank.sparse.surfaces import find_surfaces
from telerank.text import Analyzer


@dataclass(frozen=True, eq=False)
class Run:
    """Postings by term: ``counts[i]`` of them belong to the term ``ids[i]`` of a vocabulary."""

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
            ids, counts, rows, tfs, lengths = (load_npy(file) for _ in range(5))
        return cls(ids, counts, rows, tfs), lengths


class RunMaker:
    """Analyses and inverts stretches of documents; numbers terms in the order of their first occurrence.

    Memory: the vocabulary, the terms of 1 M surfaces, about 40 bytes for each piece of the current stretch.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._classes = analyzer.classes
        self._numbers = _Numbers(analyzer)

    @property
    def vocabulary(self) -> list[str]:
        """The terms by their numbers."""
        return list(self._numbers.of_term)

    def make(self, texts: Sequence[str], first_row: int, path: Path) -> None:
        """Write the run of the texts of documents ``first_row``, ``first_row`` + 1, …"""
        distinct, which, text_ends = find_surfaces(texts, self._classes)
        numbers, ends = array("i"), array("q")
        for terms in map(self._numbers.__getitem__, distinct):
            numbers.extend(terms)
            ends.append(len(numbers))
        analysed = (_as_array(numbers, np.int32), _as_array(ends, np.int64))
        size = len(self._numbers.of_term)
        lengths, counts, rows, tfs = _invert(which, text_ends, analysed, first_row, size)
        ids = np.flatnonzero(counts)
        Run(ids, counts[ids], rows, tfs).save(path, lengths)


class _Numbers(dict[bytes, tuple[int, ...]]):
    """Surface -> numbers of its terms; a surface is analysed when it is first looked up."""

    _most = 1 << 20  # surfaces that are kept, about 150 MB

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.of_term: dict[str, int] = {}

    def __missing__(self, surface: bytes) -> tuple[int, ...]:
        if len(self) >= self._most:
            self.clear()
        number, known = self.of_term.setdefault, self.of_term
        terms = self._analyzer(surface.decode("utf-8", "surrogatepass"))
        numbers = self[surface] = tuple([number(term, len(known)) for term in terms])
        return numbers


def _as_array(values: array[int], kind: type[np.generic]) -> npt.NDArray[Any]:
    """View values as an array; numpy refuses an empty buffer."""
    return np.frombuffer(values, kind) if values else np.empty(0, kind)


@compiled
def _invert(
    which: Any, text_ends: Any, analysed: Any, first_row: int, size: int
) -> tuple[Any, Any, Any, Any]:
    """Lengths (N,), postings of each term (size,), and the postings' rows and frequencies, by term.

    ``which`` (P,) are the surfaces of the pieces; ``analysed`` are the terms of all surfaces and their ends.
    """
    terms, ends = analysed
    lengths, counts = np.zeros(len(text_ends), np.int32), np.zeros(size, np.int64)
    last = np.full(size, -1, np.int64)
    start = 0
    for doc in range(len(text_ends)):
        for piece in range(start, text_ends[doc]):
            surface = which[piece]
            for i in range(ends[surface - 1] if surface else 0, ends[surface]):
                lengths[doc] += 1
                if last[terms[i]] != doc:
                    last[terms[i]] = doc
                    counts[terms[i]] += 1
        start = text_ends[doc]
    positions = np.cumsum(counts) - counts
    rows, tfs = np.empty(counts.sum(), np.int32), np.zeros(counts.sum(), np.int32)
    last[:] = -1
    start = 0
    for doc in range(len(text_ends)):
        for piece in range(start, text_ends[doc]):
            surface = which[piece]
            for i in range(ends[surface - 1] if surface else 0, ends[surface]):
                term = terms[i]
                if last[term] != doc:
                    last[term] = doc
                    rows[positions[term]] = first_row + doc
                    positions[term] += 1
                tfs[positions[term] - 1] += 1
        start = text_ends[doc]
    return lengths, counts, rows, tfs
