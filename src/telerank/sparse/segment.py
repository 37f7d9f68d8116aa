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

from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse.arrays import mapped
from telerank.sparse.kernel import BLOCK
from telerank.sparse.terms import Terms

ESCAPE = 255
"""A stored frequency that stands for itself or more."""


class Segment:
    """What search reads of a segment; everything is memory-mapped, threads may share it.

    All files are opened at once: what a writer sweeps away later stays with those who read it.

    Raises
    ------
    IndexDamaged
        where files cannot be read as what they should be, or do not belong together.
    """

    def __init__(self, folder: Path, deleted: str | None = None) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.offsets, self.rows, self.occurrences, self.lengths = (
            mapped(folder / f"{name}.npy", kind)
            for name, kind in (("offsets", "q"), ("rows", "i"), ("occurrences", "q"), ("lengths", "i"))
        )
        self._tfs, self._large = mapped(folder / "tfs.npy", "B"), mapped(folder / "tfs.large.npy", "q")
        self.deleted: npt.NDArray[np.bool_] = (
            np.empty(0, np.bool_) if deleted is None else np.array(mapped(folder / deleted, "?"))
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

    def _check(self) -> None:
        """See that the sizes agree: the loops of search look at no bounds."""
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
    """Where the postings of each block begin, for the terms frequent enough that a table pays.

    ``places`` are rows within their block. Pages that no query has asked for take no memory.
    """

    slots: npt.NDArray[np.int32]  # (terms,), -1 for a term without a table
    pointers: npt.NDArray[Any]  # (F, blocks + 1)
    places: npt.NDArray[np.uint8]  # (postings,)

    @classmethod
    def of(cls, segment: Segment) -> BlockTables:
        frequent = np.diff(segment.offsets) >= max(segment.blocks // 4, 1)
        slots = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        kind = np.int32 if len(segment.rows) < 2**31 else np.int64
        pointers = np.zeros((int(frequent.sum()), segment.blocks + 1), kind)
        return cls(slots, pointers, np.zeros(len(segment.rows), np.uint8))
