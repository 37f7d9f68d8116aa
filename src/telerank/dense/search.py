"""Exact search: the best rows by inner product, found in their codes, scored from the vectors themselves.

What is found is, to the bit, what scoring every vector finds (:func:`best_of_all`): the codes only say which
rows cannot be among the best (see :mod:`.kernel`).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.dense import kernel, tile
from telerank.dense.kinds import Floats, check_vectors
from telerank.dense.rotate import ERROR, padded, rotated
from telerank.dense.vectors import Encoded, Vectors, VectorShard

Rows = npt.NDArray[np.int64]
_SLACK = 2 * ERROR + 2e-6  # of |q| |x|: more than float32 loses in both rotations and in a bound
_LEAST_ROOM = 1 << 14  # candidates of a query
_ROOM = 1 << 21  # candidates of all queries that are searched together: 12 bytes each
_MANY = 4  # queries from which on tiles are faster than one query after the other
_WHOLE = 8  # where a list takes this share of all rows, every row is scored


class Found(NamedTuple):
    """Rows and scores, best first."""

    rows: Rows
    scores: Floats


def search(vectors: Vectors, queries: Encoded, k: int, *, threads: int = 1) -> list[Found]:
    """The ``k`` best rows for each query, in Ranking's order; ``threads`` share the rows among them.

    Raises
    ------
    ModelError
        where another model made the queries' vectors.
    DocumentError
        where a query's vector is not finite.
    """
    vectors.require(queries)
    asked = np.ascontiguousarray(queries.vectors, np.float32)
    check_vectors(asked, "query")
    if k * _WHOLE >= len(vectors):
        return [best_of_all(vectors, query, k) for query in asked]
    room = max(_LEAST_ROOM, 8 * k)
    together = max(1, min(4 * tile.LANES, _ROOM // room))
    answers: list[Found] = []
    for begin in range(0, len(asked), together):
        answers += _search_together(vectors, asked[begin : begin + together], k, room, threads)
    return answers


def best_of_all(vectors: Vectors, query: Floats, k: int) -> Found:
    """The same by scoring every row: the slow path, which the fast one equals to the bit."""
    return best_among(vectors, np.arange(len(vectors), dtype=np.int64), query, k)


def best_among(vectors: Vectors, rows: Rows, query: Floats, k: int) -> Found:
    """The ``k`` best of these rows, which ascend: by score, then docno, both descending."""
    scores = vectors.scores(rows, query) + np.float32(0.0)  # no -0.0
    if len(rows) > 2 * k:
        last = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[scores >= last], scores[scores >= last]
    order = np.lexsort((vectors.docnos.rank[rows], scores))[::-1][:k]
    return Found(rows[order], scores[order])


def explained(vectors: Vectors, query: Floats, row: int) -> float:
    """The score of one row."""
    return float(vectors.scores(np.array([row], np.int64), query)[0])


@dataclass(frozen=True)
class _Coded:
    """Queries as the kernels read them."""

    vectors: Floats
    wide: tuple[npt.NDArray[Any], ...]
    groups: tuple[npt.NDArray[Any], ...] | None

    @classmethod
    def of(cls, queries: Floats, vectors: Vectors) -> _Coded:
        width = padded(queries.shape[1])
        asked, queries = queries, queries if vectors.dtype == "int8" else rotated(queries)
        norms = np.sqrt(np.einsum("qd,qd->q", queries, queries, dtype=np.float64))
        largest = min(32767, (2**31 - 1) // (127 * width))
        codes, scales, rests = _rounded(queries, width, norms, largest)
        lengths = (norms * (1 + _SLACK)).astype(np.float32)
        wide = (codes.astype(np.int16), np.stack([scales, lengths, rests], axis=1))
        many = len(queries) >= _MANY and width <= 1 << 16 and tile.available()
        return cls(asked, wide, _grouped(queries, width, norms, lengths) if many else None)


def _rounded(
    queries: Floats, width: int, norms: npt.NDArray[np.float64], largest: int
) -> tuple[npt.NDArray[np.float64], Floats, Floats]:
    """Codes of at most ``largest`` (Q, width), their scales, and the length of what they miss of a query."""
    scales = (np.abs(queries).max(axis=1) / np.float64(largest)).astype(np.float32)
    codes = np.zeros((len(queries), width))
    some = scales > 0
    codes[some, : queries.shape[1]] = np.rint(queries[some] / scales[some, None].astype(np.float64))
    np.clip(codes, -largest, largest, out=codes)
    missed = queries - codes[:, : queries.shape[1]] * scales[:, None].astype(np.float64)
    rests = np.sqrt(np.einsum("qd,qd->q", missed, missed)) * (1 + _SLACK) + _SLACK * norms
    return codes, scales, rests.astype(np.float32)


def _grouped(
    queries: Floats, width: int, norms: npt.NDArray[np.float64], lengths: Floats
) -> tuple[npt.NDArray[Any], ...]:
    """Queries in groups of 64: packed bytes, and for each lane scale, length and rest."""
    codes, scales, rests = _rounded(queries, width, norms, 127)
    starts = range(0, len(queries), tile.LANES)
    packed = np.stack([tile.pack(codes[s : s + tile.LANES].astype(np.int8)) for s in starts])
    lanes = np.zeros((3, len(starts) * tile.LANES), np.float32)
    lanes[:, : len(queries)] = scales, lengths, rests
    return packed, np.ascontiguousarray(lanes.reshape(3, len(starts), tile.LANES).transpose(1, 0, 2))


class _State:
    """The candidates of several queries (see :func:`kernel.scan`)."""

    def __init__(self, queries: int, room: int, k: int) -> None:
        self.k = k
        self.rows = np.empty((queries, room), np.uint32)
        self.spans = np.empty((queries, room, 2), np.float32)
        self.counts = np.zeros((queries, 2), np.int64)
        self.counts[:, 1] = min(2 * k + 256, room - kernel.BLOCK)
        self.thresholds = np.full(queries, -np.inf, np.float32)

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.rows, self.spans, self.counts, self.thresholds

    def candidates(self, number: int) -> Rows:
        return self.rows[number, : self.counts[number, 0]].astype(np.int64)

    def resolve(self, vectors: Vectors, queries: Floats) -> None:
        """Where too many candidates remain, score them, and go on with the best alone."""
        for number in map(int, np.flatnonzero(self.counts[:, 0] > self.rows.shape[1] // 2)):
            found = best_among(vectors, np.sort(self.candidates(number)), queries[number], self.k)
            count = len(found.rows)
            self.rows[number, :count] = found.rows
            self.spans[number, :count] = found.scores[:, None]
            self.counts[number] = count, count + max(self.k, 256)
            self.thresholds[number] = max(self.thresholds[number], found.scores[-1])


def _search_together(vectors: Vectors, queries: Floats, k: int, room: int, threads: int) -> list[Found]:
    coded = _Coded.of(queries, vectors)

    def scanned(shards: tuple[VectorShard, ...]) -> _State:
        state = _State(len(queries), room, k)
        for shard in shards:
            _scan(vectors, shard, coded, state)
        for number in range(len(queries)):
            kernel.compact(state.arrays, number, k)
        return state

    parts = _parted(vectors.shards, threads)
    if len(parts) == 1:
        states = [scanned(parts[0])]
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            states = list(pool.map(scanned, parts))
    answers = []
    for number, query in enumerate(queries):
        rows = np.sort(np.concatenate([state.candidates(number) for state in states]))
        answers.append(best_among(vectors, rows, query, k))
    return answers


def _scan(vectors: Vectors, shard: VectorShard, coded: _Coded, state: _State) -> None:
    row, k = 0, state.k
    scanned = (shard.codes, shard.bounds, shard.first)
    while row < len(shard):
        if coded.groups is None:
            row = kernel.scan(scanned, row, coded.wide, state.arrays, k)
        else:
            row = kernel.scan_many(scanned, row, coded.wide, coded.groups, state.arrays, k)
        state.resolve(vectors, coded.vectors)


def _parted(shards: tuple[VectorShard, ...], threads: int) -> list[tuple[VectorShard, ...]]:
    """The rows in so many parts of about the same size; a shard may be cut."""
    total = sum(map(len, shards))
    bounds = [total * number // threads for number in range(threads + 1)]
    return [tuple(_between(shards, low, high)) for low, high in pairwise(bounds)]


def _between(shards: tuple[VectorShard, ...], low: int, high: int) -> Iterator[VectorShard]:
    for first, vectors, codes, bounds in shards:
        begin, end = max(low - first, 0), min(high - first, len(bounds))
        if begin < end:
            yield VectorShard(first + begin, vectors[begin:end], codes[begin:end], bounds[begin:end])
