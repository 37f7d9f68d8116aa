"""A segment searched within a filter: the marks of the rows that do not pass, and, if few do, their postings.

If a filter lets less than a fifth of a segment pass, the postings of the terms of queries are copied without
the others: a copy is made when a query first holds the term, and adding all of it is then faster than
skipping blocks of the whole. Otherwise the kernel of the whole segment passes over rows that are marked, and
over blocks without an allowed row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from telerank.columns.filters import Tree
from telerank.corpus.selection import select_rows
from telerank.sparse import kernel

if TYPE_CHECKING:
    from telerank.sparse.segment import Segment

_FEW = 5
_MOST_COPIED = 1 << 24  # postings of a selection that are kept, 8 bytes each

Postings = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


class RowSelection:
    """The rows of a segment that pass a filter and are not deleted; threads may share it."""

    def __init__(self, segment: Segment, tree: Tree) -> None:
        allowed = select_rows(segment.docs, tree)
        if len(segment.deleted):
            allowed &= ~segment.deleted
        self.hidden = ~allowed
        self.count = int(allowed.sum())
        self.is_copied = self.count * _FEW < len(allowed)

    @cached_property
    def rows(self) -> npt.NDArray[np.int32]:
        """The rows (n,) that pass, ascending."""
        return np.flatnonzero(~self.hidden).astype(np.int32)

    @cached_property
    def empty_blocks(self) -> npt.NDArray[np.bool_]:
        """Which blocks (blocks,) of the segment have no row that passes."""
        starts = np.arange(0, len(self.hidden), kernel.BLOCK)
        return np.logical_and.reduceat(self.hidden, starts)

    @cached_property
    def numbers(self) -> npt.NDArray[np.int32]:
        """For each row of the segment its number among those that pass, -1 for others."""
        numbers = np.full(len(self.hidden), -1, np.int32)
        numbers[self.rows] = np.arange(self.count, dtype=np.int32)
        return numbers


class SelectedPostings:
    """The postings of terms of a segment, under one similarity, without the rows that do not pass."""

    def __init__(self, selection: RowSelection, rank: npt.NDArray[np.uint32]) -> None:
        self.selection = selection
        self.rank = rank[selection.rows]
        self._copies: dict[int, Postings] = {}
        self._copied, self._lock = 0, Lock()

    def copy(self, term: int, rows: npt.NDArray[np.int32], values: npt.NDArray[np.int32]) -> Postings:
        """Those of a term's postings that pass, which are kept."""
        numbers = self.selection.numbers[rows]
        passing = numbers >= 0
        copy = numbers[passing], values[passing]
        with self._lock:
            self._copied += len(copy[0])
            if self._copied > _MOST_COPIED:
                self._copies, self._copied = {}, len(copy[0])
            self._copies[term] = copy
        return copy

    def find(self, term: int) -> Postings | None:
        """The postings of a term, if they were copied."""
        return self._copies.get(term)

    def rank_copies(self, copies: Mapping[int, tuple[Postings, int]], k: int) -> npt.NDArray[np.uint64]:
        """The keys (see :mod:`.kernel`) of the ``k`` best rows; ``copies``: postings and weights by term."""
        postings = [copy for copy, _ in copies.values()]
        offsets = np.cumsum([0, *(len(rows) for rows, _ in postings)])
        rows, values = (np.concatenate(part) for part in zip(*postings, strict=True))
        query = np.arange(len(postings)), np.array([weight for _, weight in copies.values()], np.int64)
        ranks = self.rank, np.empty(0, np.bool_)
        own = offsets[:-1], offsets[1:], rows, values
        keys = kernel.add_all(query, own, _no_tables(offsets[:-1]), ranks, k)
        inside = (keys & np.uint64(2**32 - 1)).astype(np.int64)
        rows_of: npt.NDArray[np.uint64] = self.selection.rows[inside].astype(np.uint64)
        return np.asarray((keys & ~np.uint64(2**32 - 1)) | rows_of)


def _no_tables(firsts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], ...]:
    """The block tables of terms that have none, given the first row of each."""
    none = np.empty((0, 1), np.int32)
    no_bytes = np.empty(0, np.uint8)
    return -1 - firsts, none, none, no_bytes, no_bytes.reshape(0, 1), np.empty((0, 2), np.int32)
