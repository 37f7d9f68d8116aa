"""One segment of an index: an inverted file that is never changed, and the marks of its deleted documents.

=======================  ============================================================================
``terms.*``              the terms in order (:mod:`telerank.sparse.terms`)
``offsets.npy``          int64 (terms + 1,): where each term's postings begin
``rows.npy``             int32 (postings,): the documents of each term, ascending
``tfs.npy``              uint8 (postings,): how often each holds it; 255 stands for 255 or more
``tfs.large.npy``        int64 (n, 2): posting and true frequency where it is 255 or more
``occurrences.npy``      int64 (terms,): each term's frequency in the whole segment
``lengths.npy``          int32 (documents,): terms in each document
``docnos.*, docs.*``     the docstore (:mod:`telerank.corpus.docstore`); row i of it is row i here
``deleted.GEN.npy``      bool (documents,): marks, where some are deleted
=======================  ============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import Docnos
from telerank.corpus.docstore import Docstore
from telerank.sparse.kernel import BLOCK, block_table
from telerank.sparse.terms import Terms

ESCAPE = 255
"""A stored frequency that stands for itself or more."""


class Segment:
    """What search reads of a segment; everything is memory-mapped, threads may share it."""

    def __init__(self, folder: Path, deleted: str | None = None) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.offsets, self.rows, self.occurrences, self.lengths = (
            _mapped(folder / f"{name}.npy") for name in ("offsets", "rows", "occurrences", "lengths")
        )
        self._tfs, self._large = _mapped(folder / "tfs.npy"), _mapped(folder / "tfs.large.npy")
        self.deleted: npt.NDArray[np.bool_] = (
            np.empty(0, np.bool_) if deleted is None else np.load(folder / deleted)
        )
        self.docnos = Docnos.open(folder)

    @cached_property
    def docs(self) -> Docstore:
        return Docstore.open(self.folder)

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
        """In how many documents a term stands, deleted ones included until segments are merged."""
        return int(self.offsets[term + 1] - self.offsets[term])

    def frequencies(self, term: int) -> npt.NDArray[np.int64]:
        """The frequency of a term in each of its documents (df,)."""
        return self.frequencies_between(int(self.offsets[term]), int(self.offsets[term + 1]))

    def frequencies_between(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """The frequencies of a stretch of postings."""
        found = self._tfs[start:end].astype(np.int64)
        low, high = np.searchsorted(self._large[:, 0], (start, end))
        found[self._large[low:high, 0] - start] = self._large[low:high, 1]
        return found

    def posting(self, term: int, row: int) -> int | None:
        """Where the posting of a term in a document stands, if it is there."""
        start, end = int(self.offsets[term]), int(self.offsets[term + 1])
        place = start + int(np.searchsorted(self.rows[start:end], row))
        return place if place < end and self.rows[place] == row else None

    def is_deleted(self, row: int) -> bool:
        return bool(len(self.deleted) and self.deleted[row])


@dataclass(frozen=True, eq=False)
class BlockTables:
    """Where the postings of each block begin, for the terms frequent enough that a table pays.

    Pages of ``pointers`` that no query has asked for take no memory.
    """

    slots: npt.NDArray[np.int32]  # (terms,), -1 for a term without a table
    pointers: npt.NDArray[Any]  # (F, blocks + 1)

    @classmethod
    def of(cls, segment: Segment) -> BlockTables:
        frequent = np.diff(segment.offsets) >= max(segment.blocks // 4, 1)
        slots = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        kind = np.int32 if len(segment.rows) < 2**31 else np.int64
        return cls(slots, np.zeros((int(frequent.sum()), segment.blocks + 1), kind))

    def fill(
        self, segment: Segment, term: int, values: npt.NDArray[np.int32], largest: npt.NDArray[np.int32]
    ) -> None:
        """Make the row of a frequent term, and its largest value in each block."""
        slot, start = self.slots[term], int(segment.offsets[term])
        block_table(
            start, segment.rows[start : start + len(values)], values, self.pointers[slot], largest[slot]
        )


def _mapped(path: Path) -> npt.NDArray[Any]:
    return np.asarray(np.load(path, mmap_mode="r"))
