"""The postings of a segment: which documents hold each term, and how often.

They are two ascending lists for each term, its documents and the running totals of its occurrences, coded one
after the other (:mod:`.packed`): in all about 10 bits a posting. Segments of format 1 have arrays instead.

Format 2, each of whose files begins with the prefix of its inverted file (:mod:`.lists`):

====================  =============================================================================
``postings.npy``      uint64: the codes
``starts.npy``        int32 or int64 (terms,): the bit at which each term's begin
====================  =============================================================================

Format 1:

====================  =============================================================================
``rows.npy``          int32 (postings,): the documents of each term, ascending
``tfs.npy``           uint8 (postings,): the term's frequency there; 255 means 255 or more
``tfs.large.npy``     int64 (n, 2): posting and frequency of those of 255 or more
====================  =============================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start, compiled
from telerank.errors import IndexDamaged
from telerank.sparse.inverted.packed import WORD_BITS, put, size_of, take, take_by_numpy, width_of
from telerank.stored import load_npy, map_npy

# The format of new segments; segments of format 1 are read, and merging writes them anew.
FORMAT = 2
Array = Any
Numbers: TypeAlias = npt.NDArray[np.int64]
# Documents and frequencies (postings,).
Lists: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
_ESCAPE = 255
_SMALL = 1 << 16  # bytes of a file that is loaded


class Postings(ABC):
    """Reads the postings of terms; ``offsets`` (terms + 1,) count those before each term."""

    offsets: npt.NDArray[Any]

    @abstractmethod
    def read(self, terms: Numbers) -> Lists:
        """The documents of terms, ascending for each term, and how often each holds the term."""


class PackedPostings(Postings):
    """Those of format 2."""

    def __init__(self, folder: Path, documents: int, prefix: str = "") -> None:
        self._file, self._documents = folder / f"{prefix}postings.npy", documents
        self.offsets, self._starts, self._occurrences = (
            map_whole_numbers(folder / f"{prefix}{name}.npy") for name in ("offsets", "starts", "occurrences")
        )
        self._words = open_array(self._file, np.uint64)
        if not len(self._starts) == len(self._occurrences) == len(self.offsets) - 1:
            raise IndexDamaged(f"{folder}: its files do not belong together")

    def read(self, terms: Numbers) -> Lists:
        sizes = (self.offsets[terms + 1] - self.offsets[terms]).astype(np.int64)
        codes = self._starts[terms].astype(np.int64), sizes, self._occurrences[terms].astype(np.int64)
        rows, tfs = np.empty(sizes.sum(), np.int32), np.empty(sizes.sum(), np.int64)
        read = _read_by_numpy if cold_start.covers(len(rows)) else _read
        if not read(self._words, codes, self._documents, rows, tfs):
            raise IndexDamaged(f"{self._file}: damaged (not the postings of its terms)")
        return rows, tfs


class PlainPostings(Postings):
    """Those of format 1."""

    def __init__(self, folder: Path) -> None:
        self.offsets = map_npy(folder / "offsets.npy", "q")
        self._rows, self._tfs = map_npy(folder / "rows.npy", "i"), map_npy(folder / "tfs.npy", "B")
        self._large = map_npy(folder / "tfs.large.npy", "q")
        # reading does not check bounds
        if not len(self._rows) == len(self._tfs) == self.offsets[-1]:
            raise IndexDamaged(f"{folder}: its files do not belong together")

    def read(self, terms: Numbers) -> Lists:
        firsts, sizes = self.offsets[terms], self.offsets[terms + 1] - self.offsets[terms]
        postings = np.repeat(firsts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        tfs = self._tfs[postings].astype(np.int64)
        large = np.flatnonzero(tfs == _ESCAPE)
        tfs[large] = self._large[np.searchsorted(self._large[:, 0], postings[large]), 1]
        return self._rows[postings], tfs


class PostingsWriter:
    """Writes postings of format 2, a run at a time, into a file that is mapped.

    ``sizes`` and ``occurrences`` (terms,) are how many documents hold each term, and how often all of them.
    """

    def __init__(
        self, folder: Path, documents: int, sizes: Numbers, occurrences: Numbers, prefix: str = ""
    ) -> None:
        starts = _plan(sizes, occurrences, documents)
        save_narrow(folder / f"{prefix}offsets.npy", np.concatenate(([0], np.cumsum(sizes))))
        save_narrow(folder / f"{prefix}occurrences.npy", occurrences)
        save_narrow(folder / f"{prefix}starts.npy", starts[:-1])
        self._words = new_words(folder / f"{prefix}postings.npy", int(starts[-1]))
        self._codes = starts, sizes, occurrences
        self._documents, self._state = documents, np.zeros((2, len(sizes)), np.int64)

    def add(self, terms: Numbers, counts: Numbers, rows: Array, tfs: Array) -> None:
        """Add ``counts`` postings of each of ``terms``, whose rows come behind those added before."""
        _write(self._words, self._codes, self._documents, self._state, (terms, counts, rows, tfs))

    def close(self) -> None:
        self._words.flush()


def new_words(path: Path, bits: int) -> Array:
    """An array of words for codes of so many bits, in a file that is mapped."""
    # zeros first: a process that later finds the disk full while writing a mapped page is killed
    np.save(path, np.zeros(-(-bits // WORD_BITS), np.uint64))
    return load_npy(path, mmap_mode="r+")


def save_narrow(path: Path, numbers: Numbers) -> None:
    """Save numbers as int32 if they are small enough."""
    np.save(path, numbers.astype(np.int32) if numbers.max(initial=0) < 2**31 else numbers)


def map_whole_numbers(path: Path) -> npt.NDArray[Any]:
    """What :func:`save_narrow` saved."""
    try:
        return open_array(path, np.int32)
    except IndexDamaged:
        return open_array(path, np.int64)


def open_array(path: Path, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """The array in a file, memory-mapped, or loaded if it is small: what is mapped keeps its file open.

    Raises
    ------
    IndexDamaged
        If it cannot be read, or has another type.
    """
    is_small = path.is_file() and path.stat().st_size <= _SMALL
    array = map_npy(path, kind, mapped=not is_small)
    array.flags.writeable = False  # as what is mapped: compiled code is made for each kind of array
    return array


@compiled
def _plan(sizes: Array, occurrences: Array, documents: int) -> Array:
    """The bit at which each term's codes begin, and the number of all bits."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    for term in range(len(sizes)):
        bits = size_of(sizes[term], documents) + size_of(sizes[term], occurrences[term])
        starts[term + 1] = starts[term] + bits
    return starts


@compiled
def _write(words: Array, codes: Array, documents: int, state: Array, run: Array) -> None:
    """Write the postings of a run; ``state`` (2, terms) has what is written: documents and occurrences."""
    starts, sizes, occurrences = codes
    terms, counts, rows, tfs = run
    posting = 0
    for i in range(len(terms)):
        term = terms[i]
        size, start = sizes[term], starts[term]
        held = (start, size, width_of(size, documents))
        totals = (start + size_of(size, documents), size, width_of(size, occurrences[term]))
        for position in range(state[0, term], state[0, term] + counts[i]):
            put(words, held, position, rows[posting])
            state[1, term] += tfs[posting]
            put(words, totals, position, state[1, term] - 1)
            posting += 1
        state[0, term] += counts[i]


@compiled
def _read(words: Array, codes: Array, documents: int, rows: Array, tfs: Array) -> Any:
    """Read the postings of terms; False if there are none."""
    starts, sizes, occurrences = codes
    first = 0
    for i in range(len(starts)):
        size, last = sizes[i], first + sizes[i]
        if size < 1 or size > documents or size > occurrences[i]:
            return False
        second = starts[i] + size_of(size, documents)
        totals = tfs[first:last]
        if not (
            take(words, starts[i], size, documents, rows[first:last])
            and take(words, second, size, occurrences[i], totals)
        ):
            return False
        for posting in range(size - 1, 0, -1):
            totals[posting] -= totals[posting - 1]
        totals[0] += 1
        first = last
    return True


def _read_by_numpy(words: Array, codes: Array, documents: int, rows: Array, tfs: Array) -> bool:
    """The same without numba."""
    first = 0
    for start, size, occurrences in zip(*(values.tolist() for values in codes), strict=True):
        if size < 1 or size > min(documents, occurrences):
            return False
        held, second = take_by_numpy(words, start, size, documents)
        totals, _ = take_by_numpy(words, second, size, occurrences)
        if held is None or totals is None:
            return False
        rows[first : first + size] = held
        tfs[first : first + size] = np.diff(totals, prepend=-1)
        first += size
    return True
