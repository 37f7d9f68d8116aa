"""One segment of an index: an inverted file that never changes, the marks of deleted documents, and impacts.

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
``copies.GEN.npy``       bool (documents,): marks, if copies are left out (:mod:`telerank.sparse.copies`)
=======================  ============================================================================
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start
from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse import kernel
from telerank.sparse.selection import RowSelection, SelectedPostings
from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.stored import map_npy
from telerank.text.steps import fold_accents

# A stored frequency that means itself or more.
ESCAPE = 255
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

    def __init__(self, folder: Path, deleted: str | None = None, copies: str | None = None) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.offsets, self.rows, self.occurrences, self.lengths = (
            map_npy(folder / f"{name}.npy", kind)
            for name, kind in (("offsets", "q"), ("rows", "i"), ("occurrences", "q"), ("lengths", "i"))
        )
        self._tfs, self._large = map_npy(folder / "tfs.npy", "B"), map_npy(folder / "tfs.large.npy", "q")
        none: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.gone, self.copies = (
            none if name is None else np.array(map_npy(folder / name, "?")) for name in (deleted, copies)
        )
        # a copy that is left out is not searched, but may come back
        self.deleted = self.gone | self.copies if len(self.gone) and len(self.copies) else self.gone
        self.deleted = self.deleted if len(self.deleted) else self.copies
        self.blocks = -(-len(self) // kernel.BLOCK)
        self.docs = Docstore(folder)
        self.docnos = self.docs.docnos
        # compiled loops do not check bounds
        if not (
            len(self.docs) == len(self)
            and {len(self.gone), len(self.copies)} <= {0, len(self)}
            and len(self.offsets) == len(self.occurrences) + 1 == len(self.terms) + 1
            and len(self._tfs) == len(self.rows) == self.offsets[-1]
        ):
            raise IndexDamaged(f"{self.folder}: its files do not belong together")

    @cached_property
    def tables(self) -> BlockTables:
        frequent = np.diff(self.offsets) >= max(self.blocks // 4, 1)
        slots = np.where(frequent, np.cumsum(frequent) - 1, -1).astype(np.int32)
        kind = np.int32 if len(self.rows) < 2**31 else np.int64
        shape = (int(frequent.sum()), self.blocks + 1)
        return BlockTables(slots, np.zeros(shape, kind), np.zeros(len(self.rows), np.uint8))

    def __len__(self) -> int:
        """Documents, deleted ones included."""
        return len(self.lengths)

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

    def is_deleted(self, row: int, *, with_copies: bool = False) -> bool:
        """Whether a document is deleted or, without ``with_copies``, left out as a copy."""
        marks = self.gone if with_copies else self.deleted
        return bool(len(marks) and marks[row])


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
        return list(takewhile(lambda term: fold_accents(term) == bare, map(self.__getitem__, order[first:])))

    @cached_property
    def _accented(self) -> npt.NDArray[np.int32]:
        """The numbers of the terms with accents, in the order of what they are without."""
        blob = np.frombuffer(self._blob, np.uint8)
        starts = np.asarray(self._starts)[:-1]
        numbers = np.flatnonzero(np.logical_or.reduceat(blob > 127, starts)) if len(starts) else starts
        bare = {number: fold_accents(self[number]) for number in numbers.tolist()}
        accented = [number for number, term in bare.items() if term != self[number]]
        return np.array(sorted(accented, key=bare.__getitem__), np.int32)

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


# Rows and scores, best first.
RowScores: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]
# How often a query holds each of its terms, by the terms' numbers.
Weights: TypeAlias = Mapping[int, int]
_POSTINGS = 1 << 20  # whose contributions are computed at a time
_SELECTIONS = 8  # whose postings are kept
_POWERS = 12  # of ten: the numbers of documents for which a term's scores are known
_ROW = np.uint64(2**32 - 1)
_ALL_BLOCKS: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


def _no_terms(_: RowSelection) -> dict[int, list[int]]:
    return {}


class Impacts:
    """A segment's postings under one similarity and the statistics of the whole index.

    A term's contributions are computed when a query first holds it, in about 20 ns a posting; each takes
    4 bytes. Threads may share it: two that compute the same term write the same numbers.
    """

    def __init__(self, segment: Segment, similarity: Similarity, collection: Statistics) -> None:
        self.segment, self.similarity, self.collection = segment, similarity, collection
        self.values = np.zeros(len(segment.rows), np.int32)  # takes memory when it is written to
        self._extremes: dict[int, tuple[int, int]] = {}  # term -> largest and smallest contribution
        self._large: dict[int, npt.NDArray[np.int64]] = {}  # contributions that int32 cannot hold, by term
        self._memory = threading.local()
        self._ranks = (segment.docnos.rank, segment.deleted)
        self._postings = (segment.offsets, segment.rows, self.values)
        slots, pointers, positions = segment.tables
        largest = np.zeros((len(pointers), segment.blocks), np.int32)
        self._block_tables = (slots, pointers, largest, positions)
        # what 1, 10, 100, … documents reach by one term; within a selection, of those that pass
        self._all_settled: dict[int, list[int]] = {}
        self._selected_settled = lru_cache(_SELECTIONS)(_no_terms)
        self._selected = lru_cache(_SELECTIONS)(partial(SelectedPostings, rank=segment.docnos.rank))

    def prepare(self, terms: Iterable[tuple[int, int, int]]) -> None:
        """Compute the contributions of terms, given as number, df and cf in the whole index."""
        new = sorted({term for term in terms if term[0] not in self._extremes})
        while new:
            sizes = np.array([self.segment.df(number) for number, _, _ in new], np.int64)
            end = max(int(np.searchsorted(np.cumsum(sizes), _POSTINGS, "right")), 1)
            self._compute(np.array(new[:end], np.int64), sizes[:end])
            new = new[end:]

    def _compute(self, terms: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
        """Compute the contributions of terms (T, 3) that have ``sizes`` (T,) postings, in one call."""
        segment, numbers = self.segment, terms[:, 0]
        parts = [
            slice(*pair) for pair in zip(segment.offsets[numbers], segment.offsets[numbers + 1], strict=True)
        ]
        rows = np.concatenate([segment.rows[part] for part in parts])
        tf = np.concatenate([segment.frequencies(part.start, part.stop) for part in parts])
        df, cf = np.repeat(terms[:, 1], sizes), np.repeat(terms[:, 2], sizes)
        exact = self.similarity.contributions(tf, segment.lengths[rows], df, cf, self.collection)
        steps = np.rint(exact / kernel.STEP).astype(np.int64)
        ends = np.cumsum(sizes)
        largest, smallest = (extreme.reduceat(steps, ends - sizes) for extreme in (np.maximum, np.minimum))
        fits = largest <= kernel.LARGEST_SUM
        for number, contributions, part, fit in zip(
            numbers.tolist(), np.split(steps, ends[:-1]), parts, fits, strict=True
        ):
            if fit:
                self.values[part] = contributions
            else:
                self._large[number] = contributions
        extremes = zip(largest.tolist(), smallest.tolist(), strict=True)
        self._extremes.update(zip(numbers.tolist(), extremes, strict=True))

    def rank(
        self, queries: Sequence[Weights], k: int, selection: RowSelection | None = None
    ) -> list[RowScores]:
        """The ``k`` best documents of each query, within a selection; every term must be prepared.

        One call of the kernel handles all queries, and other threads may run meanwhile. As long as queries
        have too few postings to load numba, :meth:`rank_by_numpy` is used.
        """
        postings = sum(self.segment.df(term) for weights in queries for term in weights)
        if cold_start.covers(postings + len(queries) * (len(self.segment) // 16)):
            return [self.rank_by_numpy(weights, k, selection) for weights in queries]
        if selection is not None and selection.is_copied:
            return [self._rank_copied(weights, k, selection) for weights in queries]
        answers: dict[int, RowScores] = {}
        prunable = [
            number
            for number, weights in enumerate(queries)
            if k <= len(self.segment) // 8
            and len(weights) <= kernel.MOST_TERMS
            and self._largest_sum(weights) <= kernel.LARGEST_SUM
        ]
        best = self._prune([queries[i] for i in prunable], k, selection)
        for number, keys in zip(prunable, best, strict=True):
            # documents that hold a term, yet score 0, come last: pruning cannot see them
            if len(keys) == k or all(self._extremes[term][1] > 0 for term in queries[number]):
                answers[number] = self._decode(keys)
        return [
            answers[number] if number in answers else self.rank_exhaustively(weights, k, selection)
            for number, weights in enumerate(queries)
        ]

    def _rank_copied(self, weights: Weights, k: int, selection: RowSelection) -> RowScores:
        """The same from the postings of the few rows that pass."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM or not weights or not selection.count:
            return self.rank_by_numpy(weights, k, selection)
        selected = self._selected(selection)
        copies = {}
        for term, weight in weights.items():
            if (copy := selected.find(term)) is None:
                part = slice(self.segment.offsets[term], self.segment.offsets[term + 1])
                copy = selected.copy(term, self.segment.rows[part], self.values[part])
            copies[term] = copy, weight
        return self._decode(selected.rank_copies(copies, k))

    def rank_exhaustively(self, weights: Weights, k: int, selection: RowSelection | None = None) -> RowScores:
        """The same from every posting: the slow path, which the fast one equals to the bit."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM:
            return self.rank_by_numpy(weights, k, selection)
        query = (np.array(list(weights), np.int64), np.array(list(weights.values()), np.int64))
        ranks = self._ranks[0], self._hidden(selection)
        return self._decode(kernel.add_all(query, self._postings, ranks, k))

    def _settled(self, selection: RowSelection | None) -> dict[int, list[int]]:
        return self._all_settled if selection is None else self._selected_settled(selection)

    def _hidden(self, selection: RowSelection | None) -> npt.NDArray[np.bool_]:
        """The marks (documents,) of rows that are not searched, or (0,)."""
        return self.segment.deleted if selection is None else selection.hidden

    def rank_by_numpy(self, weights: Weights, k: int, selection: RowSelection | None = None) -> RowScores:
        """The same without numba, in float64: every posting, term after term.

        Also used for sums beyond 2^31 steps, a score of 2,048; smaller sums are exact.
        """
        sums, holds = np.zeros(len(self.segment), np.float64), np.zeros(len(self.segment), np.bool_)
        for term, weight in weights.items():
            start, end = self.segment.offsets[term], self.segment.offsets[term + 1]
            rows = self.segment.rows[start:end]
            sums[rows] += self._large.get(term, self.values[start:end]).astype(np.float64) * weight
            holds[rows] = True
        if len(hidden := self._hidden(selection)):
            holds &= ~hidden
        rows = np.flatnonzero(holds).astype(np.uint32)
        scores = (sums[rows] * kernel.STEP).astype(np.float32)
        order = np.lexsort((self.segment.docnos.rank[rows], scores))[::-1][:k]
        return rows[order], scores[order]

    def contribution(self, term: int, posting: int) -> float:
        """The exact amount that a posting of a prepared term adds to the score of its document."""
        if term in self._large:
            return int(self._large[term][posting - int(self.segment.offsets[term])]) * kernel.STEP
        return int(self.values[posting]) * kernel.STEP

    def _decode(self, keys: npt.NDArray[np.uint64]) -> RowScores:
        rows, half = (keys & _ROW).astype(np.uint32), np.uint64(32)
        order = np.argsort((keys & ~_ROW) | self.segment.docnos.rank[rows])[::-1]
        return rows[order], (keys[order] >> half).astype(np.float32) * np.float32(kernel.STEP)

    def _largest_sum(self, weights: Weights) -> int:
        """An upper bound of any document's sum, in steps."""
        return sum(self._extremes[term][0] * weight for term, weight in weights.items())

    def _prune(
        self, queries: Sequence[Weights], k: int, selection: RowSelection | None
    ) -> list[npt.NDArray[np.uint64]]:
        """The keys of each query's best documents, unordered."""
        hidden, settled = self._hidden(selection), self._settled(selection)
        new = sorted({term for weights in queries for term in weights}.difference(settled))
        reached = np.zeros((len(new), _POWERS), np.int64)
        kernel.settle(np.array(new, np.int64), self._postings, self._block_tables, hidden, reached)
        settled.update(zip(new, reached.tolist(), strict=True))
        power = len(str(k - 1))  # of the least power of ten that is k or more (10 for 1)
        known = [
            max((settled[term][power] * weight for term, weight in weights.items()), default=0)
            for weights in queries
        ]
        batch = (
            np.array([term for weights in queries for term in weights], np.int64),
            np.array([weight for weights in queries for weight in weights.values()], np.int64),
            np.cumsum([len(weights) for weights in queries], dtype=np.int64),
            np.array(known, np.int64),
        )
        empty = _ALL_BLOCKS if selection is None else selection.empty_blocks
        ranks = self._ranks[0], hidden, empty
        keys = np.empty((len(queries), k), np.uint64)
        counts = kernel.prune_all(batch, self._postings, self._block_tables, ranks, keys, self._buffers(k))
        return [row[:count] for row, count in zip(keys, counts, strict=True)]

    def _buffers(self, k: int) -> tuple[npt.NDArray[Any], ...]:
        """Sums, flags, bounds, first postings and keys of this thread (see :func:`.kernel.prune`)."""
        kept = getattr(self._memory, "work", None)
        if kept is None:
            blocks = self.segment.blocks
            kept = self._memory.work = (
                np.zeros(kernel.BLOCK, np.int32),
                np.zeros(kernel.BLOCK, np.uint8),
                np.zeros(blocks, np.int32),
                np.empty((kernel.MOST_TERMS, blocks), self.segment.tables.pointers.dtype),
            )
        return (*kept, np.empty(2 * k + 256, np.uint64))
