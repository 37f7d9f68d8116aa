"""MaxSim from bytes: for each query token the largest inner product with a document's tokens, and their sum.

A stored vector is s c, a scale and bytes; a query's vector q is about t b, with bytes b. With e = q - t b,

    |q . s c  -  s t (b . c)|  <=  |e| |s c|

gives a least and a greatest value of each product. Only the tokens whose greatest value is not below the
largest least one can have the largest product; those are computed in float64. So a score is the sum, in
float64, of the largest products of the query's float32 numbers with the stored values, as if all were
computed (:func:`score_exhaustively`), whatever the other documents are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.dense import tile
from telerank.dense.kinds import Floats
from telerank.dense.tile import (
    FEW_LANES,
    FEW_ROWS,
    bound_rows,
    count_zeros,
    fetch,
    few_of_one,
    few_of_rows,
    multiply_exactly,
    reach_least,
)

LANES = FEW_LANES
_SLACK = np.float32(2e-6)  # bound of float32's error in a value and a bound, as a share of |q| |x|
_LINE = 64  # bytes of a cache line
Array = Any  # numba takes arrays of any of its types
_reordered = partial(compiled, fastmath={"reassoc", "contract"})


def score_tokens(query: Floats, codes: Array, bounds: Array, spans: npt.NDArray[np.int64]) -> Array:
    """The scores (n,) float64 of documents, whose tokens are the rows ``spans`` (n, 2), first and last + 1.

    query (Q, D) float32; codes (T, D rounded up to a multiple of 4) int8; bounds (T, 4) as
    :func:`telerank.dense.kernel.quantise` has them. A document without a token scores 0.
    """
    scores = np.zeros(len(spans))
    wide = _widen(query, codes.shape[1])
    if not len(query) or not len(spans):
        return scores
    if not tile.is_available():
        score_exhaustively(wide, codes, bounds, spans, scores)
        return scores
    starts = range(0, len(query), LANES)
    room = LANES * int((spans[:, 1] - spans[:, 0]).max())
    state = codes, bounds, np.empty(room, np.int32), np.empty(room, np.float32)
    for start in starts:
        lanes = wide[start : start + LANES]
        _score_lanes(state, (lanes, *_pack(lanes)), spans, scores)
    return scores


def best_tokens(query: Floats, codes: Array, bounds: Array, span: tuple[int, int]) -> tuple[Array, Array]:
    """For each query token the document's token with the largest product (Q,), and that product, float64."""
    begin, end = span
    stored = codes[begin:end].astype(np.float64) * bounds[begin:end, :1].astype(np.float64)
    products = _widen(query, codes.shape[1]) @ stored.T
    best = products.argmax(axis=1)
    return best, products[np.arange(len(query)), best]


def _widen(query: Floats, width: int) -> npt.NDArray[np.float64]:
    wide = np.zeros((len(query), width))
    wide[:, : query.shape[1]] = query
    return wide


def _pack(lanes: npt.NDArray[np.float64]) -> tuple[Array, Array]:
    """Codes of query tokens as the tile reads them; (65,) float32: t, the bound of |e|, what was added."""
    most = tile.largest_code(lanes.shape[1])
    scales = (np.abs(lanes).max(axis=1) / most).astype(np.float32)
    codes = np.zeros(lanes.shape)
    some = scales > 0
    codes[some] = np.clip(np.rint(lanes[some] / scales[some, None].astype(np.float64)), -most, most)
    missed = lanes - codes * scales[:, None].astype(np.float64)
    norms = np.sqrt(np.einsum("qd,qd->q", lanes, lanes))
    numbers = np.zeros(2 * LANES + 1, np.float32)
    numbers[: len(lanes)] = scales
    rests = np.sqrt(np.einsum("qd,qd->q", missed, missed)) * (1 + 1e-6) + _SLACK * norms
    numbers[LANES : LANES + len(lanes)] = rests
    packed, numbers[-1] = tile.pack(codes, LANES)
    return packed, numbers


@_reordered
def _exact(codes: Array, row: int, lanes: Array, lane: int) -> Any:
    total = 0.0
    for i in range(codes.shape[1]):
        total += lanes[lane, i] * np.float64(codes[row, i])
    return total


@compiled
def score_exhaustively(query: Array, codes: Array, bounds: Array, spans: Array, scores: Array) -> None:
    """Add the scores of documents from all products: the slow path, of other processors."""
    for n in range(len(spans)):
        total = 0.0
        if spans[n, 1] > spans[n, 0]:
            for q in range(len(query)):
                best = -np.inf
                for t in range(spans[n, 0], spans[n, 1]):
                    best = max(best, _exact(codes, t, query, q) * np.float64(bounds[t, 0]))
                total += best
        scores[n] += total


@compiled
def _score_lanes(state: Array, query: Array, spans: Array, scores: Array) -> None:
    """Add what at most 32 query tokens give to the scores of documents.

    state: codes, bounds; products (room,) int32 and values (room,) float32, for 32 lanes of each token of a
    document; query: its tokens (Q, D) float64, packed codes, and numbers (65,), of :func:`_pack`.
    """
    codes, bounds, products, values = state
    lanes, packed, numbers = query
    width, flat, count = codes.shape[1], codes.reshape(-1), len(lanes)
    flat_lanes, flat_bounds, used = lanes.reshape(-1), bounds.reshape(-1), (1 << count) - 1
    least, best = np.empty(LANES, np.float32), np.empty(LANES)
    for n in range(len(spans)):
        begin, end = spans[n, 0], spans[n, 1]
        if begin == end:
            continue
        following = spans[n + 1] if n + 1 < len(spans) else spans[n]
        for offset in range(following[0] * 4, following[1] * 4, _LINE // 4):
            fetch(flat_bounds, offset)
        _multiply(flat, (begin, end, following[0], following[1]), width, packed, products)
        bound_rows(products, bounds[begin:end], numbers, values, least)
        best[:] = -np.inf
        for r in range(begin, end):
            bits = reach_least(values, (r - begin) * LANES, least) & used
            while bits:
                q = count_zeros(bits)
                if width % 16:
                    product = _exact(codes, r, lanes, q)
                else:
                    product = multiply_exactly(flat, r * width, flat_lanes, q * width, width)
                best[q] = max(best[q], product * np.float64(bounds[r, 0]))
                bits &= bits - 1
        total = 0.0
        for q in range(count):
            total += best[q]
        scores[n] += total


@compiled
def _multiply(flat: Array, span: Array, width: int, packed: Array, products: Array) -> None:
    """The products of a document's rows; ``span`` has its first, the one behind its last, and the next's.

    The bytes of the next document are fetched meanwhile, as many as are multiplied.
    """
    begin, end, following, last = span
    row, offset, behind = begin, following * width, last * width
    while row < end:
        if row + FEW_ROWS <= end:
            few_of_rows(flat, row * width, width, packed, products[(row - begin) * LANES :])
            row += FEW_ROWS
        else:
            few_of_one(flat, row * width, width, packed, products[(row - begin) * LANES :])
            row += 1
        until = min(behind, (following + row - begin) * width)
        while offset < until:
            fetch(flat, offset)
            offset += _LINE
    while offset < behind:  # it is longer
        fetch(flat, offset)
        offset += _LINE
