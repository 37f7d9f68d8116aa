"""Exact search: the best rows by inner product, selected by their codes, scored from the vectors.

The result equals that of scoring every vector (:func:`rank_exhaustively`) to the bit: codes only exclude rows
that cannot be among the best (see :mod:`.kernel`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.dense import kernel, tile
from telerank.dense.kinds import ERROR, Floats, pad_width, rotate
from telerank.dense.vectors import Encoded, Vectors, VectorShard

Rows = npt.NDArray[np.int64]
_Arrays = tuple[npt.NDArray[Any], ...]
# Queries that a GPU searches together: vectors that do not fit there are copied once for all of them.
TOGETHER = 1024
# Every row is scored if k is more than this fraction of all rows.
WHOLE = 8
_SLACK = 2 * ERROR + 2e-6  # bound of float32's error in both rotations and a bound, as a share of |q| |x|
_LEAST_ROOM = 1 << 14  # candidates of a query
_ROOM = 1 << 21  # candidates of all queries that are searched together, 12 bytes each
_MANY = 4  # from this number of queries on tiles are faster than one query after the other


class Hits(NamedTuple):
    """Rows and scores, best first."""

    rows: Rows
    scores: Floats


def search(vectors: Vectors, queries: Encoded, k: int, *, threads: int = 1) -> list[Hits]:
    """The ``k`` best rows for each query, in Ranking's order; ``threads`` divide the rows."""
    targets = vectors.require(queries)
    if k * WHOLE >= len(vectors):
        return [rank_exhaustively(vectors, query, k) for query in targets]
    room = max(_LEAST_ROOM, 8 * k)
    together = max(1, min(4 * tile.LANES, _ROOM // room))
    answers: list[Hits] = []
    for begin in range(0, len(targets), together):
        answers += _search_together(vectors, targets[begin : begin + together], k, room, threads)
    return answers


def rank_exhaustively(vectors: Vectors, query: Floats, k: int) -> Hits:
    """The same from the scores of all rows: the slow path, which the fast one equals to the bit."""
    return rank_rows(vectors, np.arange(len(vectors), dtype=np.int64), query, k)


def rank_rows(vectors: Vectors, rows: Rows, query: Floats, k: int) -> Hits:
    """The ``k`` best of ascending ``rows``: by score, then docno, both descending."""
    scores = vectors.score_rows(rows, query) + np.float32(0.0)  # no -0.0
    if len(rows) > 2 * k:
        last = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[scores >= last], scores[scores >= last]
    order = np.lexsort((vectors.docnos.rank[rows], scores))[::-1][:k]
    return Hits(rows[order], scores[order])


def _code(queries: Floats, vectors: Vectors) -> tuple[_Arrays, _Arrays | None]:
    """Queries as the kernels read them, and for tiles, if these are faster."""
    width = pad_width(queries.shape[1])
    queries = queries if vectors.dtype == "int8" else rotate(queries)
    norms = np.sqrt(np.einsum("qd,qd->q", queries, queries, dtype=np.float64))
    codes, scales, rests = _round(queries, width, norms, min(32767, (2**31 - 1) // (127 * width)))
    lengths = (norms * (1 + _SLACK)).astype(np.float32)
    wide = (codes.astype(np.int16), np.stack([scales, lengths, rests], axis=1))
    if len(queries) < _MANY or width > 1 << 16 or not tile.is_available():
        return wide, None

    # in groups of 64: packed bytes, and scale, length and rounding error of each lane
    codes, scales, rests = _round(queries, width, norms, 127)
    starts = range(0, len(queries), tile.LANES)
    packed = np.stack([tile.pack(codes[s : s + tile.LANES].astype(np.int8)) for s in starts])
    lanes = np.zeros((3, len(starts) * tile.LANES), np.float32)
    lanes[:, : len(queries)] = scales, lengths, rests
    by_group = lanes.reshape(3, len(starts), tile.LANES).transpose(1, 0, 2)
    return wide, (packed, np.ascontiguousarray(by_group))


def _round(
    queries: Floats, width: int, norms: npt.NDArray[np.float64], largest: int
) -> tuple[npt.NDArray[np.float64], Floats, Floats]:
    """Codes (Q, width) of at most ``largest``, their scales (Q,), and the lengths of what they miss (Q,)."""
    scales = (np.abs(queries).max(axis=1) / np.float64(largest)).astype(np.float32)
    codes = np.zeros((len(queries), width))
    some = scales > 0
    codes[some, : queries.shape[1]] = np.rint(queries[some] / scales[some, None].astype(np.float64))
    np.clip(codes, -largest, largest, out=codes)
    missed = queries - codes[:, : queries.shape[1]] * scales[:, None].astype(np.float64)
    rests = np.sqrt(np.einsum("qd,qd->q", missed, missed)) * (1 + _SLACK) + _SLACK * norms
    return codes, scales, rests.astype(np.float32)


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
        """Score the candidates of queries that have too many, and keep the best."""
        for number in map(int, np.flatnonzero(self.counts[:, 0] > self.rows.shape[1] // 2)):
            hits = rank_rows(vectors, np.sort(self.candidates(number)), queries[number], self.k)
            count = len(hits.rows)
            self.rows[number, :count] = hits.rows
            self.spans[number, :count] = hits.scores[:, None]
            self.counts[number] = count, count + max(self.k, 256)
            self.thresholds[number] = max(self.thresholds[number], hits.scores[-1])


def _search_together(vectors: Vectors, queries: Floats, k: int, room: int, threads: int) -> list[Hits]:
    wide, groups = _code(queries, vectors)

    def scan_shards(shards: list[VectorShard]) -> _State:
        state = _State(len(queries), room, k)
        for shard in shards:
            row, scanned = 0, (shard.codes, shard.bounds, shard.first)
            while row < len(shard):
                if groups is None:
                    row = kernel.scan(scanned, row, wide, state.arrays, k)
                else:
                    row = kernel.scan_many(scanned, row, wide, groups, state.arrays, k)
                state.resolve(vectors, queries)
        for number in range(len(queries)):
            kernel.compact(state.arrays, number, k)
        return state

    with ThreadPoolExecutor(threads) as pool:
        states = list((map if threads == 1 else pool.map)(scan_shards, _divide(vectors.shards, threads)))
    answers = []
    for number, query in enumerate(queries):
        rows = np.sort(np.concatenate([state.candidates(number) for state in states]))
        answers.append(rank_rows(vectors, rows, query, k))
    return answers


def _divide(shards: tuple[VectorShard, ...], threads: int) -> list[list[VectorShard]]:
    """Divide the rows into ``threads`` parts of about the same size; a shard may be cut."""
    total = sum(map(len, shards))
    parts = []
    for low, high in pairwise(total * number // threads for number in range(threads + 1)):
        part = []
        for first, vectors, codes, bounds in shards:
            begin, end = max(low - first, 0), min(high - first, len(bounds))
            if begin < end:
                part.append(
                    VectorShard(first + begin, vectors[begin:end], codes[begin:end], bounds[begin:end])
                )
        parts.append(part)
    return parts
