"""The contributions of a segment's postings under one similarity, in fixed point, computed when needed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start
from telerank.sparse import kernel
from telerank.sparse.segment import Segment
from telerank.sparse.similarities.base import Similarity, Statistics

RowScores: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]
"""Rows and scores, best first."""
Weights: TypeAlias = Mapping[int, int]
"""How often a query holds each of its terms, by the terms' numbers."""
_POSTINGS = 1 << 20  # whose contributions are computed at a time
_POWERS = 12  # of ten: the numbers of documents for which a term's scores are known
_ROW = np.uint64(2**32 - 1)


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
        self._known: dict[int, list[int]] = {}  # term -> what 1, 10, 100, … documents reach
        self._memory = threading.local()
        self._ranks = (segment.docnos.rank, segment.deleted)
        self._postings = (segment.offsets, segment.rows, self.values)
        slots, pointers, positions = segment.tables
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

    def rank(self, queries: Sequence[Weights], k: int) -> list[RowScores]:
        """The ``k`` best documents of each query; every term must be prepared.

        One call of the kernel handles all queries, and other threads may run meanwhile. As long as queries
        have too few postings to load numba, :meth:`rank_by_numpy` is used.
        """
        postings = sum(self.segment.df(term) for weights in queries for term in weights)
        if cold_start.covers(postings + len(queries) * (len(self.segment) // 16)):
            return [self.rank_by_numpy(weights, k) for weights in queries]
        answers: dict[int, RowScores] = {}
        prunable = [
            number
            for number, weights in enumerate(queries)
            if k <= len(self.segment) // 8
            and len(weights) <= kernel.MOST_TERMS
            and self._largest_sum(weights) <= kernel.LARGEST_SUM
        ]
        for number, keys in zip(prunable, self._prune([queries[i] for i in prunable], k), strict=True):
            # documents that hold a term, yet score 0, come last: pruning cannot see them
            if len(keys) == k or all(self._extremes[term][1] > 0 for term in queries[number]):
                answers[number] = self._decode(keys)
        return [
            answers[number] if number in answers else self.rank_exhaustively(weights, k)
            for number, weights in enumerate(queries)
        ]

    def rank_exhaustively(self, weights: Weights, k: int) -> RowScores:
        """The same from every posting: the slow path, which the fast one equals to the bit."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM:
            return self.rank_by_numpy(weights, k)
        query = (np.array(list(weights), np.int64), np.array(list(weights.values()), np.int64))
        return self._decode(kernel.add_all(query, self._postings, self._ranks, k))

    def rank_by_numpy(self, weights: Weights, k: int) -> RowScores:
        """The same without numba, in float64: every posting, term after term.

        Also used for sums beyond 2^31 steps, a score of 2,048; smaller sums are exact.
        """
        sums, holds = np.zeros(len(self.segment), np.float64), np.zeros(len(self.segment), np.bool_)
        for term, weight in weights.items():
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

    def contribution(self, term: int, posting: int) -> float:
        """The exact amount that a posting of a prepared term adds to the score of its document."""
        large = self._large.get(term)
        steps = self.values[posting] if large is None else large[posting - int(self.segment.offsets[term])]
        return int(steps) * kernel.STEP

    def _settle(self, terms: Iterable[int]) -> None:
        """Fill the block tables of prepared terms."""
        new = sorted(term for term in terms if term not in self._known)
        known = np.zeros((len(new), _POWERS), np.int64)
        kernel.settle(
            np.array(new, np.int64), self._postings, self._block_tables, self.segment.deleted, known
        )
        self._known.update(zip(new, known.tolist(), strict=True))

    def _decode(self, keys: npt.NDArray[np.uint64]) -> RowScores:
        rows, half = (keys & _ROW).astype(np.uint32), np.uint64(32)
        order = np.argsort((keys & ~_ROW) | self.segment.docnos.rank[rows])[::-1]
        return rows[order], (keys[order] >> half).astype(np.float32) * np.float32(kernel.STEP)

    def _largest_sum(self, weights: Weights) -> int:
        """An upper bound of any document's sum, in steps."""
        return sum(self._extremes[term][0] * weight for term, weight in weights.items())

    def _prune(self, queries: Sequence[Weights], k: int) -> list[npt.NDArray[np.uint64]]:
        """The keys of each query's best documents, unordered."""
        self._settle({term for weights in queries for term in weights})
        power = len(str(k - 1))  # of the least power of ten that is k or more (10 for 1)
        known = [
            max((self._known[term][power] * weight for term, weight in weights.items()), default=0)
            for weights in queries
        ]
        terms = np.array([term for weights in queries for term in weights], np.int64)
        times = np.array([weight for weights in queries for weight in weights.values()], np.int64)
        ends = np.cumsum([len(weights) for weights in queries], dtype=np.int64)
        batch = (terms, times, ends, np.array(known, np.int64))
        keys = np.empty((len(queries), k), np.uint64)
        counts = kernel.prune_all(
            batch, self._postings, self._block_tables, self._ranks, keys, self._buffers(k)
        )
        return [row[:count] for row, count in zip(keys, counts, strict=True)]

    def _buffers(self, k: int) -> tuple[npt.NDArray[Any], ...]:
        """Sums, flags, bounds, first postings and keys of this thread (see :func:`.kernel.prune`)."""
        kept = getattr(self._memory, "work", None)
        if kept is None:
            blocks = self.segment.blocks
            kept = (
                np.zeros(kernel.BLOCK, np.int32),
                np.zeros(kernel.BLOCK, np.uint8),
                np.zeros(blocks, np.int32),
                np.full((kernel.MOST_TERMS, blocks), -1, self.segment.tables.pointers.dtype),
                np.empty(0, np.uint64),
            )
        if len(kept[4]) != (room := 2 * k + 256):
            kept = (*kept[:4], np.empty(room, np.uint64))
        self._memory.work = kept
        return kept
