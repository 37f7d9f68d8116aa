"""What one similarity makes of a segment's postings: fixed-point contributions, made when asked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.sparse import kernel
from telerank.sparse.segment import Segment
from telerank.sparse.similarities import Similarity, Statistics

Found: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]
"""Rows and scores, best first."""
IntegerQuery: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Terms (T,), each once; how often the query holds them (T,); a score in steps that ``k`` documents reach."""
_POWERS = 12  # of ten, whose documents' scores are known for each term
_ROW = np.uint64(2**32 - 1)


class Impacts:
    """A segment's postings under one similarity and the statistics of the whole index.

    A term's contributions are computed when a query first holds it: 4 bytes for each of its postings, and the
    work of some 20 ns each, once. Threads may share it: two that make the same term write the same numbers.
    """

    def __init__(self, segment: Segment, similarity: Similarity, collection: Statistics) -> None:
        self.segment, self.similarity, self.collection = segment, similarity, collection
        self.values = np.zeros(len(segment.rows), np.int32)  # zero pages: memory comes with the first write
        self._tables = segment.tables
        self._largest = np.zeros((len(self._tables.pointers), segment.blocks), np.int32)
        self._made: dict[int, tuple[int, int]] = {}  # term -> its largest and smallest contribution
        self._large: dict[int, npt.NDArray[np.int64]] = {}  # of terms whose contributions int32 cannot hold
        self._known: dict[int, tuple[int, ...]] = {}  # term -> what 1, 10, 100, … of its documents reach
        self._memory = threading.local()
        self._ranks = (segment.docnos.rank, segment.deleted)
        self._postings = (segment.offsets, segment.rows, self.values)
        self._block_tables = (
            self._tables.slots,
            self._tables.pointers,
            self._largest,
            self._tables.places,
        )

    def prepare(self, term: int, df: int, cf: int) -> None:
        """Compute the contributions of a term, whose frequencies in the whole index are ``df`` and ``cf``."""
        if term in self._made:
            return
        segment = self.segment
        start, end = int(segment.offsets[term]), int(segment.offsets[term + 1])
        lengths = segment.lengths[segment.rows[start:end]]
        exact = self.similarity.contributions(segment.frequencies(term), lengths, df, cf, self.collection)
        steps = np.rint(exact / kernel.STEP).astype(np.int64)
        largest, smallest = int(steps.max()), int(steps.min())
        if largest > kernel.LARGEST_SUM:
            self._large[term] = steps
        else:
            self.values[start:end] = steps
            self._tables.fill(segment, term, self.values[start:end], self._largest)
            self._known[term] = self._reached(self.values[start:end], segment.rows[start:end])
        self._made[term] = (largest, smallest)

    def best(self, terms: Sequence[int], weights: Sequence[int], k: int) -> Found:
        """The ``k`` best documents of a query, best first; every term must be prepared."""
        made = [self._made[term] for term in terms]
        if (
            sum(largest * weight for (largest, _), weight in zip(made, weights, strict=True))
            > kernel.LARGEST_SUM
        ):
            return self._best_of_large(terms, weights, k)
        known = max(
            self._known[term][len(str(k - 1))] * weight for term, weight in zip(terms, weights, strict=True)
        )
        query = (np.array(terms, np.int64), np.array(weights, np.int64), known)
        if len(terms) > kernel.MOST_TERMS or k > len(self.segment) // 8:
            return self.best_of_all(query, k)
        work = self._work(k)
        count = kernel.pruned(query, self._postings, self._block_tables, self._ranks, k, work)
        if count < k and any(smallest == 0 for _, smallest in made):
            return self.best_of_all(query, k)  # documents that hold a term, yet score 0, come last
        return self._found(work[4][:count])

    def best_of_all(self, query: IntegerQuery, k: int) -> Found:
        """The same by adding every posting: the slow path, which the fast one equals to the bit."""
        return self._found(kernel.exhaustive(query, self._postings, self._ranks, k))

    def contribution(self, term: int, posting: int) -> float:
        """What a posting of a prepared term adds to the score of its document, exactly."""
        large = self._large.get(term)
        steps = self.values[posting] if large is None else large[posting - int(self.segment.offsets[term])]
        return int(steps) * kernel.STEP

    def _found(self, keys: npt.NDArray[np.uint64]) -> Found:
        rows, half = (keys & _ROW).astype(np.uint32), np.uint64(32)
        order = np.argsort((keys & ~_ROW) | self.segment.docnos.rank[rows])[::-1]
        return rows[order], (keys[order] >> half).astype(np.float32) * np.float32(kernel.STEP)

    def _reached(self, values: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]) -> tuple[int, ...]:
        """The contribution that 1, 10, 100, … of the documents reach at least; 0 where there are fewer."""
        if len(self.segment.deleted):
            values = values[~self.segment.deleted[rows]]
        places = [len(values) - 10**power for power in range(_POWERS)]
        there = [place for place in places if place >= 0]
        ordered = np.partition(values, there) if there else values
        return tuple(int(ordered[place]) if place >= 0 else 0 for place in places)

    def _best_of_large(self, terms: Sequence[int], weights: Sequence[int], k: int) -> Found:
        """Sums beyond 2^31 steps (a score of 2,048): every posting, in float64, term after term."""
        sums, holds = np.zeros(len(self.segment), np.float64), np.zeros(len(self.segment), np.bool_)
        for term, weight in zip(terms, weights, strict=True):
            start, end = self.segment.offsets[term], self.segment.offsets[term + 1]
            rows = self.segment.rows[start:end]
            sums[rows] += self._large.get(term, self.values[start:end]).astype(np.float64) * weight
            holds[rows] = True
        if len(self.segment.deleted):
            holds &= ~self.segment.deleted
        rows = np.flatnonzero(holds).astype(np.uint32)
        scores = (sums[rows] * kernel.STEP).astype(np.float32)
        order = np.lexsort((self.segment.docnos.rank[rows], scores))[::-1][:k]
        return rows[order], scores[order]

    def _work(self, k: int) -> tuple[npt.NDArray[Any], ...]:
        """Sums, flags, bounds, first places and keys of this thread (see :func:`kernel.pruned`)."""
        kept = getattr(self._memory, "work", None)
        if kept is None:
            blocks = self.segment.blocks
            kept = (
                np.zeros(kernel.BLOCK, np.int32),
                np.zeros(kernel.BLOCK, np.uint8),
                np.zeros(blocks, np.int32),
                np.full((kernel.MOST_TERMS, blocks), -1, self._tables.pointers.dtype),
                np.empty(0, np.uint64),
            )
        if len(kept[4]) != (room := 2 * k + 256):
            kept = (*kept[:4], np.empty(room, np.uint64))
        self._memory.work = kept
        return kept
