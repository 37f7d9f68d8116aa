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
    if k * WHOLE >= len(vectors) or vectors.are_few:
        return [rank_exhaustively(vectors, query, k) for query in targets]
    room = max(_LEAST_ROOM, 8 * k)
    together = max(1, min(4 * tile.LANES, _ROOM // room))
    answers: list[Hits] = []
    for begin in range(0, len(targets), together):
        answers += _search_together(vectors, targets[begin : begin + together], k, room, threads)
    return answers


def rank_exhaustively(vectors: Vectors, query: Floats, k: int) -> Hits:
    """The same from the scores of all rows: the slow path, which the fast one equals to the bit."""
    return rank_rows(vectors, vectors.rows, query, k)


def rank_rows(vectors: Vectors, rows: Rows, query: Floats, k: int) -> Hits:
    """The ``k`` best of ascending ``rows``: by score, then docno, both descending."""
    scores = vectors.score_rows(rows, query) + np.float32(0.0)  # no -0.0
    if len(rows) > 2 * k:
        last = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows, scores = rows[scores >= last], scores[scores >= last]
    order = np.argsort(scores)
    if (np.diff(scores[order]) == 0).any():
        order = np.lexsort((vectors.docnos.ranks(rows), scores))
    order = order[::-1][:k]
    return Hits(rows[order], scores[order])


def _code(queries: Floats, vectors: Vectors) -> tuple[_Arrays, _Arrays | None]:
    """Queries as the kernels read them, and for tiles, if these are faster."""
    width = pad_width(queries.shape[1])
    queries = queries if vectors.dtype == "int8" else rotate(queries)
    norms = np.sqrt(np.einsum("qd,qd->q", queries, queries, dtype=np.float64))
    codes, scales, rests = _round(queries, width, norms, tile.largest_word(width))
    lengths = (norms * (1 + _SLACK)).astype(np.float32)
    wide = (codes.astype(np.int16), np.stack([scales, lengths, rests], axis=1))
    if len(queries) < _MANY or width > 1 << 16 or not tile.is_available():
        return wide, None

    # in groups of 64: packed codes; scale, length and rounding error of each lane; what was added to codes
    codes, scales, rests = _round(queries, width, norms, tile.largest_code(width))
    starts = range(0, len(queries), tile.LANES)
    packed, added = zip(*(tile.pack(codes[start : start + tile.LANES]) for start in starts), strict=True)
    lanes = np.zeros((3, len(starts) * tile.LANES), np.float32)
    lanes[:, : len(queries)] = scales, lengths, rests
    by_group = lanes.reshape(3, len(starts), tile.LANES).transpose(1, 0, 2)
    return wide, (np.stack(packed), np.ascontiguousarray(by_group), np.array(added, np.int32))


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


def _candidates(state: _Arrays, number: int) -> Rows:
    """The rows that may be among the best of a query (see :func:`kernel.scan`)."""
    rows, _, counts, _ = state
    return rows[number, : counts[number, 0]].astype(np.int64)


def _resolve(state: _Arrays, vectors: Vectors, queries: Floats, k: int) -> None:
    """Score the candidates of queries that have too many, and keep the best."""
    rows, spans, counts, thresholds = state
    for number in map(int, np.flatnonzero(counts[:, 0] > rows.shape[1] // 2)):
        hits = rank_rows(vectors, np.sort(_candidates(state, number)), queries[number], k)
        count = len(hits.rows)
        rows[number, :count] = hits.rows
        spans[number, :count] = hits.scores[:, None]
        counts[number] = count, count + max(k, 256)
        thresholds[number] = max(thresholds[number], hits.scores[-1])


def _search_together(vectors: Vectors, queries: Floats, k: int, room: int, threads: int) -> list[Hits]:
    wide, groups = _code(queries, vectors)

    def scan_shards(shards: list[VectorShard]) -> _Arrays:
        counts = np.zeros((len(queries), 2), np.int64)
        counts[:, 1] = min(2 * k + 256, room - kernel.BLOCK)
        rows, spans = np.empty((len(queries), room), np.uint32), np.empty((len(queries), room, 2), np.float32)
        state = rows, spans, counts, np.full(len(queries), -np.inf, np.float32)
        for shard in shards:
            row, scanned = 0, (shard.codes, shard.bounds, shard.first)
            while row < len(shard):
                if groups is None:
                    row = kernel.scan(scanned, row, wide, state, k)
                else:
                    row = kernel.scan_many(scanned, row, wide, groups, state, k)
                _resolve(state, vectors, queries, k)
        for number in range(len(queries)):
            kernel.compact(state, number, k)
        return state

    with ThreadPoolExecutor(threads) as pool:
        states = list((map if threads == 1 else pool.map)(scan_shards, _divide(vectors.shards, threads)))
    answers = []
    for number, query in enumerate(queries):
        rows = np.sort(np.concatenate([_candidates(state, number) for state in states]))
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
