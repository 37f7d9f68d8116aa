"""The loops of dense search: select rows that can be among the best, from codes of a byte a dimension.

A row x is about s c (see :mod:`.vectors`), a query q about t b, with b of 16 bits. By Cauchy and Schwarz,

    |q.x - s t (c.b)|  <=  |q| |x - s c|  +  |q - t b| |s c|

which gives a least and a greatest possible score of each row. A row stays a candidate as long as its greatest
score is not below the k-th largest of all least scores, so that no row of the best k is ever dropped. The
candidates' scores are then computed from the vectors (:func:`exact`).

Legend: N rows, D dimensions (of codes: rounded up to a multiple of 4), Q queries, C room for candidates;
bounds (N, 4): scale s, |x - s c|, |s c| and the sum of c.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from telerank.compiled import compiled, select_largest
from telerank.dense.tile import LANES, ROWS, fetch, tile_of_one, tile_of_rows

BLOCK = 96  # rows scanned together, a multiple of ROWS and of 8
_AHEAD = 12_288  # bytes ahead that codes are prefetched: the processor's own prefetching ends at each page
_LINE = 64  # bytes of a cache line
_TINY = np.float32(1e-36)  # larger than what products of tiny numbers lose

Array = Any  # numba takes arrays of any of its types
# the compiler chooses the order of a sum, the same for every row; a score's digits do not show it in float64
_reordered = partial(compiled, fastmath={"reassoc", "contract"})


@compiled
def scan(shard: Array, begin: int, queries: Array, state: Array, k: int) -> Any:  # noqa: C901 — one loop
    """Scan rows from ``begin`` on, one query after the other; return the row that was reached.

    shard: codes (N, D), bounds (N, 4), the number of its first row;
    queries: b (Q, D) int16, and (Q, 3) float32: t, |q|, |q - t b|;
    state: candidates' rows (Q, C) and spans (Q, C, 2), least and greatest score; for each query their count
    and the count at which to :func:`compact` (Q, 2), and the threshold (Q,).

    It returns early if a query has more than C / 2 candidates, which the caller must then score.
    """
    # unpacked once: numba counts references whenever an array is taken out of a tuple
    codes, bounds, first = shard
    wide, numbers = queries
    rows, spans, counts, thresholds = state
    width, flat = codes.shape[1], codes.reshape(-1)
    products, flags = np.empty(BLOCK, np.int32), np.zeros(BLOCK, np.uint8)
    words = flags.view(np.uint64)
    for start in range(begin, len(codes), BLOCK):
        end = min(start + BLOCK, len(codes))
        full = False
        for q in range(len(wide)):
            for r in range(start, end):
                if q == 0:
                    for offset in range(r * width + _AHEAD, (r + 1) * width + _AHEAD, _LINE):
                        fetch(flat, offset)
                products[r - start] = _product(codes, r, wide, q)
            scale, norm, rest, least = numbers[q, 0], numbers[q, 1], numbers[q, 2], thresholds[q]
            for r in range(start, end):
                value = np.float32(products[r - start]) * (bounds[r, 0] * scale)
                flags[r - start] = value + (norm * bounds[r, 1] + rest * bounds[r, 2] + _TINY) >= least
            for w in range(len(words)):
                if words[w]:
                    for i in range(8 * w, 8 * w + 8):
                        if flags[i]:
                            r, slot = start + i, counts[q, 0]
                            value = np.float32(products[i]) * (bounds[r, 0] * scale)
                            margin = norm * bounds[r, 1] + rest * bounds[r, 2] + _TINY
                            rows[q, slot] = first + r
                            spans[q, slot, 0], spans[q, slot, 1] = value - margin, value + margin
                            counts[q, 0] = slot + 1
                    words[w] = 0
            if counts[q, 0] >= counts[q, 1]:
                full |= compact(state, q, k)
        if full:
            return end
    return len(codes)


@compiled
def scan_many(  # noqa: C901 — one loop
    shard: Array, begin: int, queries: Array, groups: Array, state: Array, k: int
) -> Any:
    """As :func:`scan`, by tiles of 64 queries, on processors that have an instruction of :mod:`.tile`.

    Packed codes, of a byte for each dimension if the processor has the instruction for them, select the pairs
    that are computed again with 16 bits. groups: packed codes (G, 64 D); (G, 3, 64) float32: scale, |q|, and
    the length of the rounding error; and what was added to the codes (G,).
    """
    codes, bounds, first = shard
    wide, numbers = queries
    packed, lanes, shifts = groups
    rows, spans, counts, thresholds = state
    width, flat = codes.shape[1], codes.reshape(-1)
    products, flags = np.empty(BLOCK * LANES, np.int32), np.zeros(LANES, np.uint8)
    words = flags.view(np.uint64)
    least = np.full((len(packed), LANES), np.float32(np.inf))  # lanes without a query stay infinite
    for start in range(begin, len(codes), BLOCK):
        end, full = min(start + BLOCK, len(codes)), False
        for g in range(len(packed)):
            count = min(LANES, len(wide) - g * LANES)
            least[g, :count] = thresholds[g * LANES : g * LANES + count]
            _products(flat, start, end, width, packed[g], products)
            for r in range(start, end):
                scale, error, norm = bounds[r, 0], bounds[r, 1], bounds[r, 2]
                shift, begins = np.int32(shifts[g] * np.int32(bounds[r, 3])), (r - start) * LANES
                for q in range(LANES):
                    value = np.float32(np.int32(products[begins + q] - shift)) * (scale * lanes[g, 0, q])
                    margin = lanes[g, 1, q] * error + lanes[g, 2, q] * norm + _TINY
                    flags[q] = value + margin >= least[g, q]
                for w in range(len(words)):
                    if words[w]:
                        for i in range(8 * w, 8 * w + 8):
                            if flags[i]:
                                q = g * LANES + i
                                product = _product(codes, r, wide, q) if shifts[g] else products[begins + i]
                                value = np.float32(product) * (scale * numbers[q, 0])
                                margin = numbers[q, 1] * error + numbers[q, 2] * norm + _TINY
                                if value + margin >= least[g, i]:
                                    slot = counts[q, 0]
                                    rows[q, slot] = first + r
                                    spans[q, slot, 0], spans[q, slot, 1] = value - margin, value + margin
                                    counts[q, 0] = slot + 1
                                    if slot + 1 >= counts[q, 1]:
                                        full |= compact(state, q, k)
                                        least[g, i] = thresholds[q]
        if full:
            return end
    return len(codes)


@compiled
def compact(state: Array, q: int, k: int) -> Any:
    """Drop the candidates that cannot be among the best k; return whether too many remain.

    It is called again when there are k more, so that thresholds keep rising.
    """
    rows, spans, counts, thresholds = state
    count, room = counts[q, 0], rows.shape[1]
    if count > k:
        thresholds[q] = max(thresholds[q], select_largest(spans[q, :count, 0].copy(), count, k))
    kept = 0
    for i in range(count):
        if spans[q, i, 1] >= thresholds[q]:
            rows[q, kept], spans[q, kept, 0], spans[q, kept, 1] = rows[q, i], spans[q, i, 0], spans[q, i, 1]
            kept += 1
    counts[q, 0] = kept
    counts[q, 1] = min(kept + max(k, 256), room - BLOCK)
    return kept > room // 2


@compiled
def quantise(vectors: Array, codes: Array, bounds: Array) -> None:
    """Fill codes (N, D) int8 and bounds (N, 4) of float32 vectors; further columns of codes are 0."""
    for r in range(len(vectors)):
        largest = np.float32(0)
        for i in range(vectors.shape[1]):
            largest = max(largest, abs(vectors[r, i]))
        scale = np.float32(largest / np.float32(127))
        codes[r, :] = 0
        error, norm, total = 0.0, 0.0, 0
        for i in range(vectors.shape[1] if scale > 0 else 0):
            code = max(-127, min(127, int(np.rint(vectors[r, i] / scale))))
            codes[r, i] = code
            near = np.float64(scale) * np.float64(code)
            error += (np.float64(vectors[r, i]) - near) ** 2
            norm += near * near
            total += code
        if scale == 0 and largest > 0:  # too small for a scale of float32
            error = np.float64(largest) ** 2 * vectors.shape[1]
        bounds[r, 0] = scale
        bounds[r, 1] = np.float32(np.sqrt(error) * (1 + 1e-6))
        bounds[r, 2] = np.float32(np.sqrt(norm) * (1 + 1e-6))
        bounds[r, 3] = np.float32(total)


@_reordered
def exact(vectors: Array, bounds: Array, rows: Array, query: Array, scores: Array, is_int8: bool) -> None:
    """Inner products of rows of float32 or int8 vectors with a float64 query: exact, summed in float64."""
    for n in range(len(rows)):
        total = 0.0
        for i in range(len(query)):
            total += query[i] * np.float64(vectors[rows[n], i])
        scores[n] = np.float32(total * np.float64(bounds[rows[n], 0]) if is_int8 else total)


@_reordered
def exact_half(vectors: Array, rows: Array, query: Array, scores: Array, is_float16: bool) -> None:
    """The same for the bits of float16 or bfloat16 vectors."""
    bits = np.empty(len(query), np.uint32)
    wide = bits.view(np.float32)
    # a float16's bits, moved to a float32's positions, are the number times 2^-112, also if subnormal
    factor = 2.0**112 if is_float16 else 1.0
    for n in range(len(rows)):
        if is_float16:
            for i in range(len(query)):
                half = np.uint32(vectors[rows[n], i])
                bits[i] = ((half & np.uint32(0x8000)) << np.uint32(16)) | (
                    (half & np.uint32(0x7FFF)) << np.uint32(13)
                )
        else:
            for i in range(len(query)):
                bits[i] = np.uint32(vectors[rows[n], i]) << np.uint32(16)
        total = 0.0
        for i in range(len(query)):
            total += query[i] * np.float64(wide[i])
        scores[n] = np.float32(total * factor)


@compiled
def _product(codes: Array, row: int, wide: Array, q: int) -> Any:
    total = np.int32(0)
    for i in range(codes.shape[1]):
        total = np.int32(total + np.int32(codes[row, i]) * np.int32(wide[q, i]))
    return total


@compiled
def _products(flat: Array, start: int, end: int, width: int, packed: Array, products: Array) -> None:
    row = start
    while row + ROWS <= end:
        tile_of_rows(flat, row * width, width, packed, products[(row - start) * LANES :])
        row += ROWS
    while row < end:
        tile_of_one(flat, row * width, width, packed, products[(row - start) * LANES :])
        row += 1
