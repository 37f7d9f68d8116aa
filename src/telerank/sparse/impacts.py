"""The contributions of a segment's postings under one similarity, and the search of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start
from telerank.sparse import kernel
from telerank.sparse.inverted.lists import Counts, TermFile
from telerank.sparse.segment import Segment
from telerank.sparse.selection import RowSelection, SelectedPostings
from telerank.sparse.similarities.base import AbsenceSimilarity, Similarity, Statistics, VectorSimilarity

# Rows and scores, which are float32 numbers, best first.
RowScores: TypeAlias = tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]
# How often a query holds each of its terms, by the terms' numbers.
Weights: TypeAlias = Mapping[int, int]
# Terms as df and cf in the whole index, and how often a query holds them.
AbsentTerms: TypeAlias = Sequence[tuple[int, int, int]]
_POSTINGS = 1 << 20  # whose contributions are computed at a time
_SELECTIONS = 8  # whose postings are kept
_POWERS = 12  # of ten: the numbers of documents for which a term's scores are known


_ALL_BLOCKS: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


def _no_terms(_: RowSelection) -> dict[int, list[int]]:
    return {}


class Impacts:
    """The postings of a segment's ``file`` under one similarity and the statistics of the whole index.

    ``frequencies`` gives the df and cf of all terms of the file in the whole index, which cosines need.
    A term's contributions are computed when a query first holds it, in about 20 ns a posting; each takes
    4 bytes. Threads may share it: two that compute the same term write the same numbers.
    """

    def __init__(
        self,
        segment: Segment,
        file: TermFile,
        similarity: Similarity,
        collection: Statistics,
        frequencies: Callable[[], Counts],
    ) -> None:
        self.segment, self.file, self.similarity, self.collection = segment, file, similarity, collection
        self._frequencies = frequencies
        # whether a query term that a document lacks counts, too
        self.counts_absent = isinstance(similarity, AbsenceSimilarity)
        self.values = np.zeros(int(file.offsets[-1]), np.int32)  # takes memory when it is written to
        self._extremes: dict[int, tuple[int, int]] = {}  # term -> largest and smallest contribution
        self._large: dict[int, npt.NDArray[np.int64]] = {}  # contributions that int32 cannot hold, by term
        # term -> what 1, 10, 100, … documents reach; within a selection, of those that pass
        self._known: dict[int, list[int]] = {}
        self._selected_known = lru_cache(_SELECTIONS)(_no_terms)
        self._selected = lru_cache(_SELECTIONS)(partial(SelectedPostings, rank=segment.docnos.rank))
        self._memory = threading.local()
        slots, pointers, positions, rows = file.tables
        self._begins, self._ends = file.offsets[:-1], file.ends
        self._postings = (self._begins, self._ends, rows, self.values)
        largest = np.zeros((len(pointers), file.blocks), np.int32)
        has_parts = np.diff(file.offsets)[slots >= 0] >= kernel.PARTS_FROM * file.blocks
        parts = np.zeros((int(has_parts.sum()), file.blocks * kernel.PARTS), np.uint8)
        units = np.zeros((len(pointers), 2), np.int32)
        units[:, 1] = np.where(has_parts, np.cumsum(has_parts) - 1, -1)
        self._block_tables = (slots, pointers, largest, positions, parts, units)

    def prepare(self, terms: Iterable[tuple[int, int, int]]) -> None:
        """Compute the contributions of terms, given as number, df and cf in the whole index."""
        new = sorted({term for term in terms if term[0] not in self._extremes})
        while new:
            terms = np.array(new, np.int64)
            room = np.cumsum(self.file.offsets[terms[:, 0] + 1] - self.file.offsets[terms[:, 0]])
            end = max(int(np.searchsorted(room, _POSTINGS, "right")), 1)
            self._compute(terms[:end])
            new = new[end:]

    def _compute(self, terms: npt.NDArray[np.int64]) -> None:
        """Compute the contributions of terms (T, 3) in one call."""
        numbers = terms[:, 0]
        sizes, rows, tf = self.file.read(numbers)
        df, cf = np.repeat(terms[:, 1], sizes), np.repeat(terms[:, 2], sizes)
        lengths = self.file.lengths_of(rows)
        exact = self.similarity.contributions(tf, lengths, df, cf, self.collection)
        if (
            isinstance(self.similarity, VectorSimilarity) and self.similarity.is_cosine
        ):  # a vector of length 0 has no component but 0
            exact = exact / np.where(self.vector_lengths[rows] > 0, self.vector_lengths[rows], 1.0)
        steps = np.rint(exact / kernel.STEP).astype(np.int64)
        ends = np.cumsum(sizes)
        largest, smallest = (extreme.reduceat(steps, ends - sizes) for extreme in (np.maximum, np.minimum))
        fits = largest <= kernel.LARGEST_SUM
        for number, contributions, fit in zip(
            numbers.tolist(), np.split(steps, ends[:-1]), fits, strict=True
        ):
            if fit:
                self.values[self._part(number)] = contributions
            else:
                self._large[number] = contributions
        extremes = zip(largest.tolist(), smallest.tolist(), strict=True)
        self._extremes.update(zip(numbers.tolist(), extremes, strict=True))
        if not cold_start.covers(0):
            self._settle(numbers, rows)

    def _part(self, term: int) -> slice:
        """Where a term has its values."""
        return slice(int(self._begins[term]), int(self._ends[term]))

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
            self._settle(np.array([term]), self.file.read_rows(term), selection)

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
        if not isinstance(self.similarity, VectorSimilarity):
            raise TypeError(f"{self.similarity!r} has no vectors")
        (dfs, cfs), offsets = self._frequencies(), np.asarray(self.file.offsets)
        squares = np.zeros(len(self.segment), np.float64)
        first = 0
        while first < len(dfs):
            end = max(int(np.searchsorted(offsets, int(offsets[first]) + _POSTINGS, "right")) - 1, first + 1)
            sizes, rows, tfs = self.file.read(np.arange(first, end))
            tf = tfs.astype(np.float64)
            df, cf = np.repeat(dfs[first:end], sizes), np.repeat(cfs[first:end], sizes)
            # one after the other: a sum must not depend on how postings are grouped
            np.add.at(squares, rows, self.similarity.weight(tf, df, cf, self.collection) ** 2)
            first = end
        return np.sqrt(squares)

    def absences(self, terms: AbsentTerms, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """What terms add to documents whether they hold them or not, in steps: each rounded, then added."""
        total = np.zeros(len(rows), np.int64)
        if not terms or not isinstance(self.similarity, AbsenceSimilarity):
            return total
        lengths = self.file.lengths_of(rows).astype(np.float64)
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
        postings = sum(int(self._ends[term] - self._begins[term]) for weights in queries for term in weights)
        return postings + len(queries) * (len(self.segment) // 16)

    def _rank_copied(self, weights: Weights, k: int, selection: RowSelection) -> RowScores:
        """The same from the postings of the few rows that pass."""
        if self._largest_sum(weights) > kernel.LARGEST_SUM or not weights or not selection.count:
            return self.rank_by_numpy(weights, k, (), selection)
        selected = self._selected(selection)
        copies = {}
        for term, weight in weights.items():
            if (copy := selected.find(term)) is None:
                copy = selected.copy(term, self.file.read_rows(term), self.values[self._part(term)])
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

        Also used for sums beyond a score of 2,032; those below 2^53 steps are exact.
        """
        sums, holds = np.zeros(len(self.segment), np.float64), np.zeros(len(self.segment), np.bool_)
        for term, weight in weights.items():
            holding, values = self.file.read_rows(term), self.values[self._part(term)]
            sums[holding] += self._large.get(term, values).astype(np.float64) * weight
            holds[holding] = True
        if len(hidden := self._hidden(selection)):
            holds &= ~hidden
        held = np.flatnonzero(holds).astype(np.uint32)
        scores = ((sums[held] + self.absences(absent, held)) * kernel.STEP).astype(np.float32)
        order = np.lexsort((self.segment.docnos.rank[held], scores))[::-1][:k]
        return held[order], scores[order].astype(np.float64)

    def contribution(self, term: int, posting: int) -> float:
        """The exact amount that a posting of a prepared term adds to the score of its document."""
        if term in self._large:
            return int(self._large[term][posting - int(self._begins[term])]) * kernel.STEP
        return int(self.values[posting]) * kernel.STEP

    def _decode(self, keys: npt.NDArray[np.uint64]) -> RowScores:
        keys.sort()
        rows, scores = kernel.decode(keys, self.segment.docnos.rank)
        return rows, scores

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
        return [row[:count] for row, count in zip(keys, counts.tolist(), strict=True)]

    def _buffers(self, k: int) -> tuple[npt.NDArray[Any], ...]:
        """What this thread searches in, as :func:`.kernel.prune` has it."""
        kept = getattr(self._memory, "work", None)
        if kept is None:
            blocks = self.file.blocks
            kept = self._memory.work = (
                np.zeros(kernel.BLOCK, np.int32),
                np.zeros(kernel.BLOCK, np.uint8),
                np.zeros(blocks, np.int32),
                np.empty((kernel.MOST_TERMS, blocks), self.file.tables.pointers.dtype),
                np.empty(blocks * kernel.PARTS, np.int32),
            )
        return (*kept[:4], np.empty(2 * k + 256, np.uint64), kept[4])
