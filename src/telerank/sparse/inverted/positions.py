"""Where terms stand in documents: an option of an index, which phrases need (:mod:`.phrases`).

The position of a term is the number of terms before it in its document, or in that field of it. For each term
the documents that hold it are thought to stand one behind the other; the places of all its occurrences in
that row of documents are one ascending list, coded as postings are (:mod:`.packed`): about 2 bits and the
logarithm of the mean distance of two occurrences for each.

========================  =========================================================================
``positions.npy``         uint64: the codes
``positions.starts.npy``  int32 or int64 (terms,): the bit at which each term's begins
========================  =========================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start, compiled
from telerank.errors import IndexDamaged
from telerank.sparse.inverted.packed import put, size_of, take, take_by_numpy, width_of
from telerank.sparse.inverted.postings import (
    Array,
    Numbers,
    map_whole_numbers,
    new_words,
    open_array,
    save_narrow,
)
from telerank.stored import load_npy

FILE, _STARTS = "positions.npy", "positions.starts.npy"


class Positions:
    """Reads the positions of terms whose postings are known."""

    def __init__(self, folder: Path, prefix: str, terms: int) -> None:
        self._file = folder / f"{prefix}{FILE}"
        self._words = open_array(self._file, np.uint64)
        self._starts = map_whole_numbers(folder / f"{prefix}{_STARTS}")
        if len(self._starts) != terms:
            raise IndexDamaged(f"{folder}: its files do not belong together")

    def read(self, term: int, lengths: npt.NDArray[Any], tfs: npt.NDArray[np.int64]) -> Numbers:
        """The positions (occurrences,) of a term, by ``lengths`` and ``tfs`` (documents,) of its postings."""
        ends = np.cumsum(lengths, dtype=np.int64)
        code = int(self._starts[term]), int(tfs.sum()), int(ends[-1])
        numbers = np.empty(code[1], np.int64)
        if not 0 < code[1] <= code[2]:
            held = False
        elif cold_start.covers(len(numbers)):
            by_numpy = take_by_numpy(self._words, *code)[0]
            held = by_numpy is not None
            numbers = numbers if by_numpy is None else by_numpy
        else:
            held = bool(take(self._words, *code, numbers))
        positions: Numbers = numbers - np.repeat(ends - lengths, tfs)
        if not held or positions.min() < 0 or np.any(positions >= np.repeat(lengths, tfs)):
            raise IndexDamaged(f"{self._file}: damaged (not the positions of its terms)")
        return positions


class PositionsWriter:
    """Writes positions, a run at a time; ``occurrences`` and ``spans`` (terms,) are of all documents.

    The span of a term is the length of all documents that hold it.
    """

    def __init__(self, folder: Path, occurrences: Numbers, spans: Numbers, prefix: str) -> None:
        starts = _plan(occurrences, spans)
        save_narrow(folder / f"{prefix}{_STARTS}", starts[:-1])
        self._words = new_words(folder / f"{prefix}{FILE}", int(starts[-1]))
        self._codes = starts, occurrences, spans
        self._lengths = load_npy(folder / f"{prefix}lengths.npy", mmap_mode="r")
        self._state = np.zeros((2, len(occurrences)), np.int64)

    def add(self, terms: Numbers, counts: Numbers, rows: Array, tfs: Array, positions: Array) -> None:
        """Add the positions of ``counts`` postings of each of ``terms``, behind those added before."""
        run = terms, counts, rows, tfs, positions
        _write(self._words, self._codes, self._lengths, self._state, run)

    def close(self) -> None:
        self._words.flush()


@compiled
def _plan(occurrences: Array, spans: Array) -> Array:
    """The bit at which each term's code begins, and the number of all bits."""
    starts = np.zeros(len(occurrences) + 1, np.int64)
    for term in range(len(occurrences)):
        starts[term + 1] = starts[term] + size_of(occurrences[term], spans[term])
    return starts


@compiled
def _write(words: Array, codes: Array, lengths: Array, state: Array, run: Array) -> None:
    """Write the positions of a run; ``state`` (2, terms) has what is written: occurrences and spans."""
    starts, occurrences, spans = codes
    terms, counts, rows, tfs, positions = run
    posting, occurrence = 0, 0
    for i in range(len(terms)):
        term = terms[i]
        code = (starts[term], occurrences[term], width_of(occurrences[term], spans[term]))
        for _ in range(counts[i]):
            for _ in range(tfs[posting]):
                put(words, code, state[0, term], state[1, term] + positions[occurrence])
                state[0, term] += 1
                occurrence += 1
            state[1, term] += lengths[rows[posting]]
            posting += 1
