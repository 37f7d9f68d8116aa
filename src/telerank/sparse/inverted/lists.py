"""An inverted file of a segment for reading: of the whole texts, or of one field of the documents.

======================  =============================================================================
``terms.bin``           the terms in order
``terms.starts.npy``    int32 or int64 (terms + 1,): where each begins there
``offsets.npy``         int32 or int64 (terms + 1,): the number of postings before those of each term
``occurrences.npy``     int32 or int64 (terms,): each term's frequency in all documents
``postings.npy`` etc.   the postings (:mod:`.postings`)
``positions.npy`` etc.  the positions, if the index has them (:mod:`.positions`)
``lengths.npy``         int32 (documents,): terms in each document
======================  =============================================================================

The names of the files of the n-th field begin with ``fields.n.``; all fields share the terms of
``fields.terms.bin``, and ``fields.n.numbers.npy``, int32 (terms,), has the numbers of those that a field has.
Those of weights beside the counts begin with ``weights.``: frequencies are then weights in whole steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import IndexDamaged
from telerank.sparse import kernel
from telerank.sparse.inverted.positions import FILE, Positions
from telerank.sparse.inverted.postings import (
    FORMAT,
    Numbers,
    PackedPostings,
    PlainPostings,
    Postings,
    map_whole_numbers,
    open_array,
)
from telerank.sparse.inverted.terms import Terms

# Of all terms of a file: df (T,) and cf (T,).
Counts: TypeAlias = tuple[Numbers, Numbers]
# How many postings each term has (T,), and, term after term, their rows (P,) and frequencies (P,) or (F, P).
Read: TypeAlias = tuple[Numbers, npt.NDArray[np.int32], npt.NDArray[np.int64]]
FIELDS, WEIGHTS = "fields.", "weights."


class BlockTables(NamedTuple):
    """The first posting of each block, for terms that are frequent enough for a table to pay off.

    ``positions`` are rows within their block, ``rows`` those of the other terms. They are read when a query
    first holds a term; until then they take no memory. The slot of a term is the number of its table, or -1
    and below: -1 minus the number of its first row in ``rows``.
    """

    slots: npt.NDArray[Any]  # (terms,)
    pointers: npt.NDArray[Any]  # (F, blocks + 1)
    positions: npt.NDArray[np.uint8]  # (postings,)
    rows: npt.NDArray[np.int32]  # (postings of the other terms,)


class TermFile(ABC):
    """What is searched of a segment: terms by number, their postings, the lengths of documents.

    ``offsets`` (terms + 1,) say where the postings of each term have their place among those of all; in a
    :class:`~telerank.sparse.inverted.combined.CombinedFile` there may be more room than postings.
    """

    terms: Terms
    offsets: npt.NDArray[Any]
    documents: int

    @abstractmethod
    def find(self, term: str) -> int:
        """The number of a term; -1 if no document holds it."""

    @abstractmethod
    def term(self, number: int) -> str:
        """The term of a number."""

    @abstractmethod
    def counts(self) -> Counts:
        """The number of documents that hold each term, and of its occurrences."""

    @abstractmethod
    def df(self, term: int) -> int:
        """The number of documents that hold a term; deleted ones count until segments are merged."""

    @abstractmethod
    def cf(self, term: int) -> int:
        """The number of a term's occurrences."""

    @abstractmethod
    def read(self, terms: Numbers) -> Read:
        """The postings of terms, by ascending row for each term."""

    @abstractmethod
    def lengths_of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The lengths of documents (P,), or of their fields (F, P)."""

    @property
    def ends(self) -> npt.NDArray[Any]:
        """Where the postings of each term end (terms,)."""
        return self.offsets[1:]

    @property
    def blocks(self) -> int:
        return -(-self.documents // kernel.BLOCK)

    @cached_property
    def tables(self) -> BlockTables:
        sizes = np.diff(self.offsets).astype(np.int64)
        frequent = sizes >= max(self.blocks // 4, 1)
        kept = np.where(frequent, 0, sizes)  # rows of terms without a table
        slots = np.where(frequent, np.cumsum(frequent), kept - np.cumsum(kept)) - 1
        kind = np.int32 if int(self.offsets[-1]) < 2**31 else np.int64
        return BlockTables(
            slots.astype(kind),
            np.zeros((int(frequent.sum()), self.blocks + 1), kind),
            np.zeros(int(self.offsets[-1]), np.uint8),
            np.zeros(int(kept.sum()), np.int32),
        )

    def read_rows(self, *terms: int) -> npt.NDArray[np.int32]:
        """The documents of terms, ascending for each term."""
        return self.read(np.array(terms, np.int64))[1]

    def find_posting(self, term: int, row: int) -> tuple[int, npt.NDArray[np.int64]] | None:
        """The number of a term's posting for a document, and its frequency there, or those of fields (F,)."""
        _, rows, tfs = self.read(np.array([term]))
        number = int(np.searchsorted(rows, row))
        holds = number < len(rows) and rows[number] == row
        return (int(self.offsets[term]) + number, tfs[..., number]) if holds else None


class InvertedFile(TermFile):
    """The files in a folder whose names begin with ``prefix``, memory-mapped; threads may share it.

    All files are opened at once, so that files which a writer removes later stay readable. ``terms`` are
    those that several fields share.
    """

    def __init__(
        self, folder: Path, prefix: str = "", terms: Terms | None = None, form: int = FORMAT
    ) -> None:
        self.folder = folder
        self.lengths = open_array(folder / f"{prefix}lengths.npy", "i")
        self.documents = len(self.lengths)
        self.terms = Terms(folder, prefix) if terms is None else terms
        self.numbers = None if terms is None else open_array(folder / f"{prefix}numbers.npy", np.int32)
        self.occurrences = map_whole_numbers(folder / f"{prefix}occurrences.npy")
        self.postings: Postings = (
            PlainPostings(folder) if form == 1 else PackedPostings(folder, self.documents, prefix)
        )
        self.offsets = self.postings.offsets
        self.positions: Positions | None = None
        if (folder / f"{prefix}{FILE}").is_file():
            self.positions = Positions(folder, prefix, len(self.occurrences))
        # compiled loops do not check bounds
        own = self.terms if self.numbers is None else self.numbers
        if not len(self.offsets) == len(self.occurrences) + 1 == len(own) + 1:
            raise IndexDamaged(f"{folder}: its files do not belong together")

    def find(self, term: str) -> int:
        number = self.terms.find(term)
        return int(self.locate(np.array([number]))[0]) if self.numbers is not None else number

    def locate(self, terms: Numbers) -> Numbers:
        """The numbers here of terms that fields share; -1 of those that are not here."""
        if self.numbers is None or not len(self.numbers):
            return np.full(len(terms), -1) if self.numbers is not None else terms
        nearest = np.minimum(np.searchsorted(self.numbers, terms), len(self.numbers) - 1)
        return np.where(self.numbers[nearest] == terms, nearest, -1)

    def term(self, number: int) -> str:
        return self.terms[number if self.numbers is None else int(self.numbers[number])]

    def df(self, term: int) -> int:
        return int(self.offsets[term + 1] - self.offsets[term])

    def cf(self, term: int) -> int:
        return int(self.occurrences[term])

    def read(self, terms: Numbers) -> Read:
        sizes = (self.offsets[terms + 1] - self.offsets[terms]).astype(np.int64)
        return sizes, *self.postings.read(terms)

    def read_positions(self, term: int) -> tuple[npt.NDArray[np.int32], Numbers, Numbers]:
        """The rows (P,) of a term, its frequencies (P,), and its positions in all of them, one by one."""
        if self.positions is None:
            raise IndexDamaged(f"{self.folder}: has no positions")
        rows, tfs = self.postings.read(np.array([term]))
        return rows, tfs, self.positions.read(term, self.lengths[rows], tfs)

    def lengths_of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        lengths: npt.NDArray[Any] = self.lengths[rows]
        return lengths

    def counts(self) -> Counts:
        return np.diff(self.offsets).astype(np.int64), self.occurrences.astype(np.int64)
