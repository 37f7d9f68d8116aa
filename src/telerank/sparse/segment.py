"""One segment of an index: an inverted file that never changes, and the marks of deleted documents.

=======================  ============================================================================
``terms.bin``            the terms in order
``terms.starts.npy``     int64 (terms + 1,): where each begins there
``offsets.npy``          int64 (terms + 1,): the first posting of each term
``rows.npy``             int32 (postings,): the documents of each term, ascending
``tfs.npy``              uint8 (postings,): the term's frequency there; 255 means 255 or more
``tfs.large.npy``        int64 (n, 2): posting and frequency of those of 255 or more
``occurrences.npy``      int64 (terms,): each term's frequency in the whole segment
``lengths.npy``          int32 (documents,): terms in each document
``docnos.*, docs.*``     the docstore (:mod:`telerank.corpus.docstore`); row i of it is row i here
``deleted.GEN.npy``      bool (documents,): marks, if some are deleted
=======================  ============================================================================
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse.kernel import BLOCK
from telerank.stored import map_npy
from telerank.text.steps import fold_accents

ESCAPE = 255
"""A stored frequency that means itself or more."""
_BLOB, _STARTS = "terms.bin", "terms.starts.npy"


class BlockTables(NamedTuple):
    """The first posting of each block, for terms that are frequent enough for a table to pay off.

    ``positions`` are rows within their block. Tables of terms that no query holds take no memory.
    """

    slots: npt.NDArray[np.int32]  # (terms,), -1 for a term without a table
    pointers: npt.NDArray[Any]  # (F, blocks + 1)
    positions: npt.NDArray[np.uint8]  # (postings,)


class Segment:
    """A segment for reading, memory-mapped; threads may share it.

    All files are opened at once, so that files which a writer removes later stay readable.
    """

    def __init__(self, folder: Path, deleted: str | None = None) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.offsets, self.rows, self.occurrences, self.lengths = (
            map_npy(folder / f"{name}.npy", kind)
            for name, kind in (("offsets", "q"), ("rows", "i"), ("occurrences", "q"), ("lengths", "i"))
        )
        self._tfs, self._large = map_npy(folder / "tfs.npy", "B"), map_npy(folder / "tfs.large.npy", "q")
        self.deleted: npt.NDArray[np.bool_] = (
            np.empty(0, np.bool_) if deleted is None else np.array(map_npy(folder / deleted, "?"))
        )
        self.docs = Docstore(folder)
        self.docnos = self.docs.docnos
        self._check()

    @cached_property
    def tables(self) -> BlockTables:
        frequent = np.diff(self.offsets) >= max(self.blocks // 4, 1)
        slots = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        kind = np.int32 if len(self.rows) < 2**31 else np.int64
        pointers = np.zeros((int(frequent.sum()), self.blocks + 1), kind)
        return BlockTables(slots, pointers, np.zeros(len(self.rows), np.uint8))

    def __len__(self) -> int:
        """Documents, deleted ones included."""
        return len(self.lengths)

    @property
    def blocks(self) -> int:
        return -(-len(self) // BLOCK)

    def df(self, term: int) -> int:
        """The number of documents that hold a term; deleted ones count until segments are merged."""
        return int(self.offsets[term + 1] - self.offsets[term])

    def frequencies(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """The frequencies of consecutive postings (end - start,)."""
        tfs = self._tfs[start:end].astype(np.int64)
        low, high = np.searchsorted(self._large[:, 0], (start, end))
        tfs[self._large[low:high, 0] - start] = self._large[low:high, 1]
        return tfs

    def find_posting(self, term: int, row: int) -> int | None:
        """The number of a term's posting for a document; None if the document does not hold the term."""
        start, end = int(self.offsets[term]), int(self.offsets[term + 1])
        posting = start + int(np.searchsorted(self.rows[start:end], row))
        return posting if posting < end and self.rows[posting] == row else None

    def is_deleted(self, row: int) -> bool:
        return bool(len(self.deleted) and self.deleted[row])

    def _check(self) -> None:
        """Refuse sizes that do not agree: compiled loops do not check bounds."""
        documents, postings = len(self), len(self.rows)
        agree = (
            len(self.docs) == documents
            and len(self.deleted) in (0, documents)
            and len(self.offsets) == len(self.occurrences) + 1 == len(self.terms) + 1
            and len(self._tfs) == postings == self.offsets[-1]
        )
        if not agree:
            raise IndexDamaged(f"{self.folder}: its files do not belong together")


class Terms:
    """The distinct terms of a segment in the order of their UTF-8 bytes; a term's number is its position.

    They are memory-mapped: a look-up reads about twenty positions of the file.
    """

    def __init__(self, folder: Path) -> None:
        with (folder / _BLOB).open("rb") as file:
            empty = not (folder / _BLOB).stat().st_size
            self._blob = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = memoryview(map_npy(folder / _STARTS, "q"))  # type: ignore[arg-type]

    def find(self, term: str) -> int:
        """The number of a term; -1 if no document holds it."""
        encoded = _encode(term)
        number = bisect_left(range(len(self)), encoded, key=self._bytes)
        return number if number < len(self) and self._bytes(number) == encoded else -1

    def find_accented(self, bare: str) -> list[str]:
        """The terms that are ``bare`` without their accents, and differ from it."""
        order = self._accented
        first = bisect_left(order, bare, key=lambda number: fold_accents(self[number]))
        same = takewhile(lambda term: fold_accents(term) == bare, (self[number] for number in order[first:]))
        return list(same)

    @cached_property
    def _accented(self) -> npt.NDArray[np.int32]:
        """The numbers of the terms with accents, in the order of what they are without."""
        blob = np.frombuffer(self._blob, np.uint8)
        starts = np.asarray(self._starts)[:-1]
        numbers = np.flatnonzero(np.logical_or.reduceat(blob > 127, starts)) if len(starts) else starts
        terms = ((number, self[number]) for number in numbers.tolist())
        folded = ((fold_accents(term), number, term) for number, term in terms)
        return np.array(
            [number for _, number in sorted((bare, n) for bare, n, term in folded if bare != term)], np.int32
        )

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes(number).decode("utf-8", "surrogatepass")

    def _bytes(self, number: int) -> bytes:
        return self._blob[self._starts[number] : self._starts[number + 1]]


def write_terms(folder: Path, ordered: Iterable[str]) -> None:
    """Write terms, which must be in order (strings sort as their UTF-8 bytes do)."""
    starts = [0]
    with (folder / _BLOB).open("wb", buffering=1 << 20) as file:
        for term in ordered:
            starts.append(starts[-1] + file.write(_encode(term)))
    np.save(folder / _STARTS, np.array(starts, dtype=np.int64))


def _encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # a lone surrogate in a text is a term like any other
