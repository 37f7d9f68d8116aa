"""One segment of an index: an inverted file that never changes, and the marks of deleted documents.

=======================  ============================================================================
``terms.*``              the terms in order (:mod:`telerank.sparse.terms`)
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

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse.arrays import map_array
from telerank.sparse.kernel import BLOCK
from telerank.sparse.terms import Terms

ESCAPE = 255
"""A stored frequency that means itself or more."""


class Segment:
    """A segment for reading, memory-mapped; threads may share it.

    All files are opened at once, so that files which a writer removes later stay readable.
    """

    def __init__(self, folder: Path, deleted: str | None = None) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.offsets, self.rows, self.occurrences, self.lengths = (
            map_array(folder / f"{name}.npy", kind)
            for name, kind in (("offsets", "q"), ("rows", "i"), ("occurrences", "q"), ("lengths", "i"))
        )
        self._tfs, self._large = map_array(folder / "tfs.npy", "B"), map_array(folder / "tfs.large.npy", "q")
        self.deleted: npt.NDArray[np.bool_] = (
            np.empty(0, np.bool_) if deleted is None else np.array(map_array(folder / deleted, "?"))
        )
        self.docs = Docstore.open(folder)
        self.docnos = self.docs.docnos
        self._check()

    @cached_property
    def tables(self) -> BlockTables:
        return BlockTables.of(self)

    def __len__(self) -> int:
        """Documents, deleted ones included."""
        return len(self.lengths)

    @property
    def blocks(self) -> int:
        return -(-len(self) // BLOCK)

    def df(self, term: int) -> int:
        """The number of documents that hold a term; deleted ones count until segments are merged."""
        return int(self.offsets[term + 1] - self.offsets[term])

    def frequencies(self, term: int) -> npt.NDArray[np.int64]:
        """The frequency of a term in each of its documents (df,)."""
        return self.frequencies_between(int(self.offsets[term]), int(self.offsets[term + 1]))

    def frequencies_between(self, start: int, end: int) -> npt.NDArray[np.int64]:
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


@dataclass(frozen=True, eq=False)
class BlockTables:
    """The first posting of each block, for terms that are frequent enough for a table to pay off.

    ``positions`` are rows within their block. Tables of terms that no query holds take no memory.
    """

    slots: npt.NDArray[np.int32]  # (terms,), -1 for a term without a table
    pointers: npt.NDArray[Any]  # (F, blocks + 1)
    positions: npt.NDArray[np.uint8]  # (postings,)

    @classmethod
    def of(cls, segment: Segment) -> BlockTables:
        frequent = np.diff(segment.offsets) >= max(segment.blocks // 4, 1)
        slots = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        kind = np.int32 if len(segment.rows) < 2**31 else np.int64
        pointers = np.zeros((int(frequent.sum()), segment.blocks + 1), kind)
        return cls(slots, pointers, np.zeros(len(segment.rows), np.uint8))
