"""One segment of an index: an inverted file that never changes, the marks of deleted documents, and impacts.

======================  =============================================================================
``terms.bin``           the terms in order
``terms.starts.npy``    int32 or int64 (terms + 1,): where each begins there
``offsets.npy``         int32 or int64 (terms + 1,): the number of postings before those of each term
``occurrences.npy``     int32 or int64 (terms,): each term's frequency in the whole segment
``postings.npy`` etc.   the postings (:mod:`telerank.sparse.postings`)
``lengths.npy``         int32 (documents,): terms in each document
``docnos.*, docs.*``    the docstore (:mod:`telerank.corpus.docstore`); row i of it is row i here
``deleted.GEN.npy``     bool (documents,): marks, if some are deleted
``copies.GEN.npy``      bool (documents,): marks, if copies are left out (:mod:`telerank.sparse.copies`)
======================  =============================================================================
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start
from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse import kernel
from telerank.sparse.postings import (
    FORMAT,
    PackedPostings,
    PlainPostings,
    Postings,
    map_whole_numbers,
    save_narrow,
)
from telerank.sparse.selection import RowSelection, SelectedPostings
from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.stored import map_npy
from telerank.text.steps import fold_accents

_BLOB, _STARTS = "terms.bin", "terms.starts.npy"


# Of all terms of a segment: df (T,) and cf (T,).
Counts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


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


class Segment:
    """A segment for reading, memory-mapped; threads may share it.

    All files are opened at once, so that files which a writer removes later stay readable.
    """

    def __init__(
        self, folder: Path, deleted: str | None = None, copies: str | None = None, form: int = FORMAT
    ) -> None:
        self.folder = folder
        self.terms = Terms(folder)
        self.lengths = map_npy(folder / "lengths.npy", "i")
        self.occurrences = map_whole_numbers(folder / "occurrences.npy")
        self.postings: Postings = PlainPostings(folder) if form == 1 else PackedPostings(folder, len(self))
        self.offsets = self.postings.offsets
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
        ):
            raise IndexDamaged(f"{self.folder}: its files do not belong together")

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

    def __len__(self) -> int:
        """Documents, deleted ones included."""
        return len(self.lengths)

    def df(self, term: int) -> int:
        """The number of documents that hold a term; deleted ones count until segments are merged."""
        return int(self.offsets[term + 1] - self.offsets[term])

    def read_rows(self, *terms: int) -> npt.NDArray[np.int32]:
        """The documents of terms, ascending for each term."""
        return self.postings.read(np.array(terms, np.int64))[0]

    def counts(self) -> Counts:
        """The number of documents that hold each term, and of its occurrences."""
        return np.diff(self.offsets).astype(np.int64), self.occurrences.astype(np.int64)

    def find_posting(self, term: int, row: int) -> tuple[int, int] | None:
        """The number of a term's posting for a document, and its frequency there; None if there is none."""
        rows, tfs = self.postings.read(np.array([term]))
        number = int(np.searchsorted(rows, row))
        holds = number < len(rows) and rows[number] == row
        return (int(self.offsets[term]) + number, int(tfs[number])) if holds else None

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
        self._starts = memoryview(map_whole_numbers(folder / _STARTS))  # type: ignore[arg-type]

    def find(self, term: str) -> int:
        """The number of a term; -1 if no document holds it."""
        encoded = _encode(term)
        number = bisect_left(range(len(self)), encoded, key=self._bytes)
        return number if number < len(self) and self._bytes(number) == encoded else -1

    def starting(self, prefix: str) -> range:
        """The numbers of the terms that begin so."""
        encoded = _encode(prefix)
        ends = (bisect_left(range(len(self)), key, key=self._bytes) for key in (encoded, encoded + b"\xff"))
        return range(*ends)

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
    save_narrow(folder / _STARTS, np.array(starts))


def _encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # a lone surrogate in a text is a term like any other


# Rows and scores, best first.
RowScores: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]
# How often a query holds each of its terms, by the terms' numbers.
Weights: TypeAlias = Mapping[int, int]
# Terms as df and cf in the whole index, and how often a query holds them.
AbsentTerms: TypeAlias = Sequence[tuple[int, int, int]]
_POSTINGS = 1 << 20  # whose contributions are computed at a time
_SELECTIONS = 8  # whose postings are kept
_POWERS = 12  # of ten: the numbers of documents for which a term's scores are known
_SCORE, _HALF, _STEP = np.uint64(2**64 - 2**32), np.uint64(32), np.float32(kernel.STEP)


_ALL_BLOCKS: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


def _no_terms(_: RowSelection) -> dict[int, list[int]]:
    return {}


class Impacts:
    """A segment's postings under one similarity and the statistics of the whole index.

    A term's contributions are computed when a query first holds it, in about 20 ns a posting; each takes
    4 bytes. Threads may share it: two that compute the same term write the same numbers.
    """

    def __init__(
        self,
        segment: Segment,
        similarity: Similarity,
        collection: Statistics,
        frequencies: Callable[[Segment], Counts] | None = None,
    ) -> None:
        self.segment, self.similarity, self.collection = segment, similarity, collection
        self._frequencies = frequencies or Segment.counts  # of terms in the whole index
        self.values = np.zeros(int(segment.offsets[-1]), np.int32)  # takes memory when it is written to
        self._extremes: dict[int, tuple[int, int]] = {}  # term -> largest and smallest contribution
        self._large: dict[int, npt.NDArray[np.int64]] = {}  # contributions that int32 cannot hold, by term
        # term -> what 1, 10, 100, … documents reach; within a selection, of those that pass
        self._known: dict[int, list[int]] = {}
        self._selected_known = lru_cache(_SELECTIONS)(_no_terms)
        self._selected = lru_cache(_SELECTIONS)(partial(SelectedPostings, rank=segment.docnos.rank))
        self._memory = threading.local()
        slots, pointers, positions, rows = segment.tables
        self._postings = (segment.offsets, rows, self.values)
        largest = np.zeros((len(pointers), segment.blocks), np.int32)
        self._block_tables = (slots, pointers, largest, positions)

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
        rows, tf = segment.postings.read(numbers)
        df, cf = np.repeat(terms[:, 1], sizes), np.repeat(terms[:, 2], sizes)
        exact = self.similarity.contributions(tf, segment.lengths[rows], df, cf, self.collection)
        if self.similarity.is_cosine:  # a vector of length 0 has no component but 0
            exact = exact / np.where(self.vector_lengths[rows] > 0, self.vector_lengths[rows], 1.0)
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
        if not cold_start.covers(0):
            self._settle(numbers, rows)

    def _settle(
        self,
        terms: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int32],
        selection: RowSelection | None = None,
    ) -> None:
        """Make what the kernel needs to know of prepared terms with these rows."""
        known = np.zeros((len(terms), _POWERS), np.int64)
        hidden = self._hidden(selection)
        kernel.settle((terms, rows), self._postings, self._block_tables, hidden, known)
        self._known_within(selection).update(zip(terms.tolist(), known.tolist(), strict=True))

    def _settle_all(self, queries: Iterable[Weights], selection: RowSelection | None = None) -> None:
        """Settle what was prepared before numba was loaded, or not yet within a selection."""
        known = self._known_within(selection)
        for term in sorted({term for weights in queries for term in weights}.difference(known)):
            self._settle(np.array([term]), self.segment.read_rows(term), selection)

    def _known_within(self, selection: RowSelection | None) -> dict[int, list[int]]:
        return self._known if selection is None else self._selected_known(selection)

    def _hidden(self, selection: RowSelection | None) -> npt.NDArray[np.bool_]:
        """The marks (documents,) of rows that are not searched, or (0,)."""
        return self.segment.deleted if selection is None else selection.hidden

    def _ranks(self, selection: RowSelection | None) -> tuple[npt.NDArray[Any], ...]:
        """The ranks of docnos, the marks of rows, and those of blocks, as the kernel reads them."""
        empty = _ALL_BLOCKS if selection is None else selection.empty_blocks
        return self.segment.docnos.rank, self._hidden(selection), empty

    @cached_property
    def vector_lengths(self) -> npt.NDArray[np.float64]:
        """The length of each document's vector of weights, from every posting in the order of the terms."""
        segment, (dfs, cfs) = self.segment, self._frequencies(self.segment)
        squares, offsets = np.zeros(len(segment), np.float64), np.asarray(segment.offsets)
        first = 0
        while first < len(dfs):
            end = max(int(np.searchsorted(offsets, int(offsets[first]) + _POSTINGS, "right")) - 1, first + 1)
            sizes = np.diff(offsets[first : end + 1])
            rows, tfs = segment.postings.read(np.arange(first, end))
            tf = tfs.astype(np.float64)
            df, cf = np.repeat(dfs[first:end], sizes), np.repeat(cfs[first:end], sizes)
            # one after the other: a sum must not depend on how postings are grouped
            np.add.at(squares, rows, self.similarity.weight(tf, df, cf, self.collection) ** 2)
            first = end
        return np.sqrt(squares)

    def absences(self, terms: AbsentTerms, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """What terms add to documents whether they hold them or not, in steps: each rounded, then added."""
        lengths, total = self.segment.lengths[rows].astype(np.float64), np.zeros(len(rows), np.int64)
        for df, cf, weight in terms:
            exact = self.similarity.absence(lengths, df, cf, self.collection)
            total += np.rint(exact / kernel.STEP).astype(np.int64) * weight
        return total

    def rank(
        self,
        queries: Sequence[Weights],
        k: int,
        absent: Sequence[AbsentTerms] | None = None,
        selection: RowSelection | None = None,
    ) -> list[RowScores]:
        """The ``k`` best documents of each query, within a selection; every term must be prepared.

        One call of the kernel handles all queries, and other threads may run meanwhile. As long as queries
        have too few postings to load numba, :meth:`rank_by_numpy` is used. ``absent`` are all terms of each
        query, if the similarity counts terms that a document lacks.
        """
        if absent is not None:
            pairs = zip(queries, absent, strict=True)
            return [self.rank_by_numpy(weights, k, terms, selection) for weights, terms in pairs]
        if cold_start.covers(0) and cold_start.covers(self._work(queries)):
            return [self.rank_by_numpy(weights, k, (), selection) for weights in queries]
        if selection is not None and selection.is_copied:
            return [self._rank_copied(weights, k, selection) for weights in queries]
        self._settle_all(queries, selection)
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

    def _work(self, queries: Sequence[Weights]) -> int:
        """The postings of queries, and a little for each document."""
        postings = sum(self.segment.df(term) for weights in queries for term in weights)
        return postings + len(queries) * (len(self.segment) // 16)

    def _rank_copied(self, weights: Weights, k: int, selection: RowSelection) -> RowScores:
        """The same from the postings of the few rows that pass."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM or not weights or not selection.count:
            return self.rank_by_numpy(weights, k, (), selection)
        selected = self._selected(selection)
        copies = {}
        for term, weight in weights.items():
            if (copy := selected.find(term)) is None:
                part = slice(self.segment.offsets[term], self.segment.offsets[term + 1])
                copy = selected.copy(term, self.segment.read_rows(term), self.values[part])
            copies[term] = copy, weight
        return self._decode(selected.rank_copies(copies, k))

    def rank_exhaustively(self, weights: Weights, k: int, selection: RowSelection | None = None) -> RowScores:
        """The same from every posting: the slow path, which the fast one equals to the bit."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM:
            return self.rank_by_numpy(weights, k, (), selection)
        self._settle_all([weights], selection)
        query = (np.array(list(weights), np.int64), np.array(list(weights.values()), np.int64))
        ranks = self._ranks(selection)[:2]
        return self._decode(kernel.add_all(query, self._postings, self._block_tables, ranks, k))

    def rank_by_numpy(
        self, weights: Weights, k: int, absent: AbsentTerms = (), selection: RowSelection | None = None
    ) -> RowScores:
        """The same without numba, in float64: every posting, term after term.

        Also used for sums beyond 2^31 steps, a score of 2,048; those below 2^53 steps are exact.
        """
        sums, holds = np.zeros(len(self.segment), np.float64), np.zeros(len(self.segment), np.bool_)
        for term, weight in weights.items():
            start, end = self.segment.offsets[term], self.segment.offsets[term + 1]
            holding = self.segment.read_rows(term)
            sums[holding] += self._large.get(term, self.values[start:end]).astype(np.float64) * weight
            holds[holding] = True
        if len(hidden := self._hidden(selection)):
            holds &= ~hidden
        held = np.flatnonzero(holds).astype(np.uint32)
        scores = ((sums[held] + self.absences(absent, held)) * kernel.STEP).astype(np.float32)
        order = np.lexsort((self.segment.docnos.rank[held], scores))[::-1][:k]
        return held[order], scores[order]

    def contribution(self, term: int, posting: int) -> float:
        """The exact amount that a posting of a prepared term adds to the score of its document."""
        if term in self._large:
            return int(self._large[term][posting - int(self.segment.offsets[term])]) * kernel.STEP
        return int(self.values[posting]) * kernel.STEP

    def _decode(self, keys: npt.NDArray[np.uint64]) -> RowScores:
        rows = keys.astype(np.uint32)  # the lower half
        order = ((keys & _SCORE) | self.segment.docnos.rank[rows]).argsort()[::-1]
        return rows[order], (keys[order] >> _HALF).astype(np.float32) * _STEP

    def _largest_sum(self, weights: Weights) -> int:
        """An upper bound of any document's sum, in steps."""
        return sum(self._extremes[term][0] * weight for term, weight in weights.items())

    def _prune(
        self, queries: Sequence[Weights], k: int, selection: RowSelection | None
    ) -> list[npt.NDArray[np.uint64]]:
        """The keys of each query's best documents, unordered."""
        settled = self._known_within(selection)
        power = len(str(k - 1))  # of the least power of ten that is k or more (10 for 1)
        known = [
            max((settled[term][power] * weight for term, weight in weights.items()), default=0)
            for weights in queries
        ]
        batch = (
            np.array([term for weights in queries for term in weights], np.int64),
            np.array([weight for weights in queries for weight in weights.values()], np.int64),
            np.array(list(accumulate(map(len, queries))), np.int64),
            np.array(known, np.int64),
        )
        keys = np.empty((len(queries), k), np.uint64)
        counts = kernel.prune_all(
            batch, self._postings, self._block_tables, self._ranks(selection), keys, self._buffers(k)
        )
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
