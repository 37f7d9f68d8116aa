"""The loops of sparse search: find the documents of a segment with the highest sums of contributions.

A contribution is a whole number of steps of 2^-20 (:data:`STEP`), so that sums are exact in any order and
:func:`prune` equals :func:`add_all` to the bit. A candidate is one unsigned 64-bit *key*: its score in steps,
rounded as float32 rounds it, above its row.

:func:`prune` is block-max pruning (Mallia, Suel, Tonellotto 2024) on an inverted file: documents are in
blocks of 256, and the largest contribution is known for each term and block. The blocks with the highest
bounds give a threshold; then the other blocks whose bound reaches it are walked in order. A block's sums
stay in the first-level cache. If a query has many terms, as those of learned vectors have, their largest
contributions are seldom in one document: the bound of a block is then the highest of those of its parts, 16
documents each, whose largest contributions are rounded up to a byte. Of frequent terms these are kept in
tables; of others they are found for each query.

Legend: T terms of the query, N documents, P postings, B blocks, F terms that have block tables, R terms that
have largest contributions of parts, too; rank (N,) is the rank of each docno among all, which orders
documents whose float32 scores are equal.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from telerank.compiled import compiled, select_largest

STEP = 2.0**-20
BLOCK_BITS = 8  # a position in a block is a byte; smaller blocks prune more, but are slower
BLOCK = 1 << BLOCK_BITS
PART_BITS = 4
PARTS = BLOCK >> PART_BITS  # of a block
PARTS_FROM = 4.0  # documents a block: of terms with fewer, tables would take more than postings
LARGEST_SUM = 2**31 - 2**24  # sums are int32, and so are bounds, of which each part is rounded up by a 255th
MOST_TERMS = 64  # of a query that is pruned
_MANY_TERMS = 8  # from which on bounds of parts save more time than they take
_BUCKETS = 256
_MANY = 32
_POSITIONS = np.uint64(sum(p << (61 - 8 * p) for p in range(8)))  # times 2^(8 p): p in the three highest bits
_HALF = np.uint64(32)
_ROW = np.uint64(2**32 - 1)

Array = Any  # numba takes arrays of any of its types


@compiled
def prune_all(batch: Array, postings: Array, tables: Array, ranks: Array, best: Array, work: Array) -> Array:
    """Put the keys of the best documents of each query into its row of ``best`` (Q, k); return their numbers.

    batch: all queries' terms, their weights, and for each query (Q,) the end of its terms and a score in
    steps that ``k`` documents are known to reach; the other arguments are those of :func:`prune`.
    """
    terms, weights, ends, known = batch
    counts = np.empty(len(ends), np.int64)
    start = 0
    for number in range(len(ends)):
        end = ends[number]
        query = (terms[start:end], weights[start:end], known[number])
        counts[number] = prune(query, postings, tables, ranks, best.shape[1], work)
        best[number, : counts[number]] = work[4][: counts[number]]
        start = end
    return counts


@compiled
def prune(  # noqa: C901, PLR0912 — one loop; as functions its parts cost a third more time
    query: Array, postings: Array, tables: Array, ranks: Array, k: int, work: Array
) -> Any:
    """Put the keys of the best documents into ``work``'s keys, unordered; return their number.

    query: terms (T,), weights (T,), a score in steps that ``k`` documents are known to reach;
    postings: first of each term and end of each, rows of terms without a table, one term after the other,
    values (P,);
    tables: slot of each term, or -1 minus the number of its first row in rows; pointers (F, B + 1), largest
    (F, B), positions in blocks (P,), largest of parts (R, B PARTS) in units, units and rows of parts or -1
    (F, 2);
    ranks: rank (N,), deleted (N,) or (0,), blocks without a document that is searched (B,) or (0,);
    work: sums (BLOCK,), flags (BLOCK,), bound (B,), first (MOST_TERMS, B), keys (at least 2 k), bounds of
    parts (B PARTS,).
    """
    # unpacked once: numba counts references whenever an array is taken out of a tuple
    terms, weights, known = query
    begins, ends, rows, values = postings
    slots, pointers, _, positions, _, _ = tables
    sums, flags, bound, first, keys, part_bound = work
    _bound((terms, weights), postings, tables, bound, first, part_bound)
    for block in range(len(ranks[2])):
        if ranks[2][block]:
            bound[block] = 0
    words = flags.view(np.uint64)
    slot_of, weight_of = slots[terms], weights.astype(np.int32)
    threshold, count = _least_sum(known), 0
    floor = np.int64(_floor_of_best(bound, threshold, k + 64))
    for best in (True, False):
        for block in range(len(bound)):
            if bound[block] < (floor if best else threshold):
                continue
            for t in range(len(terms)):
                slot, weight = slot_of[t], weight_of[t]
                if slot >= 0:  # not by way of pointers[slot]: references to it would be counted
                    start, end = pointers[slot, block], pointers[slot, block + 1]
                elif first[t, block] >= 0:
                    start = end = first[t, block]
                    shift = -1 - np.int64(slot) - begins[terms[t]]
                    while end < ends[terms[t]] and rows[end + shift] >> BLOCK_BITS == block:
                        end += 1
                else:
                    continue
                for i in range(np.uint64(start), np.uint64(end)):  # unsigned: no test for indices below 0
                    sums[positions[i]] += values[i] * weight
            count, threshold = _collect(block, ranks, k, count, threshold, sums, flags, words, keys)
            if best:
                bound[block] = 0
        if best and count > k:
            count, threshold = k, max(threshold, _keep_best(keys, count, k, ranks[0]))
    if count > k:
        _keep_best(keys, count, k, ranks[0])
        count = k
    return count


@compiled
def add_all(query: Array, postings: Array, tables: Array, ranks: Array, k: int) -> Array:
    """The keys of the ``k`` best documents that hold a term of the query, unordered, from every posting."""
    terms, weights = query
    begins, ends, rows, values = postings
    slots, pointers, _, positions, _, _ = tables
    rank, deleted = ranks
    sums = np.full(len(rank), -1, np.int64)
    for t in range(len(terms)):
        slot = slots[terms[t]]
        if slot < 0:
            shift = -1 - np.int64(slot) - begins[terms[t]]
            for i in range(begins[terms[t]], ends[terms[t]]):
                row = rows[i + shift]
                sums[row] = max(sums[row], 0) + np.int64(values[i]) * weights[t]
            continue
        for block in range(pointers.shape[1] - 1):
            for i in range(pointers[slot, block], pointers[slot, block + 1]):
                row = (block << BLOCK_BITS) + positions[i]
                sums[row] = max(sums[row], 0) + np.int64(values[i]) * weights[t]
    keys = np.empty(len(sums), np.uint64)
    count = 0
    for row in range(len(sums)):
        if sums[row] >= 0 and not (len(deleted) and deleted[row]):
            keys[count] = _key(sums[row], row)
            count += 1
    if count > k:
        _keep_best(keys, count, k, rank)
        count = k
    return keys[:count]


@compiled
def decode(keys: Array, rank: Array) -> tuple[Array, Array]:
    """The rows and scores of ascending keys, best first; of equal scores the greatest docno first."""
    rows, scores = np.empty(len(keys), np.uint32), np.empty(len(keys), np.float64)
    by_docno = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):  # all at once: ranks are far apart in memory, and fetches overlap
        row = keys[i] & _ROW
        by_docno[i] = (np.uint64(rank[row]) << _HALF) | row
    start = 0
    while start < len(keys):
        score, end = keys[start] >> _HALF, start + 1
        while end < len(keys) and keys[end] >> _HALF == score:
            end += 1
        _sort(by_docno[start:end])
        for i in range(start, end):
            rows[len(keys) - 1 - i], scores[len(keys) - 1 - i] = by_docno[i] & _ROW, np.int64(score) * STEP
        start = end
    return rows, scores


@compiled
def _sort(keys: Array) -> None:
    """Sort a few keys, as most ties are, by insertion: setting up another sort takes longer."""
    if len(keys) > _MANY:
        keys.sort()
        return
    for i in range(1, len(keys)):
        key, to = keys[i], i
        while to > 0 and keys[to - 1] > key:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = key


@compiled
def settle(new: Array, postings: Array, tables: Array, deleted: Array, known: Array) -> None:
    """Keep the rows of terms whose values are computed, as positions if they have a table; make their tables.

    new: terms (T,), and all their rows, term by term. ``known`` (T, powers) becomes the value that 1, 10,
    100, … of a term's documents reach, or 0 if it has fewer; deleted documents do not count.
    """
    terms, all_rows = new
    begins, ends, kept, values = postings
    slots, pointers, largest, positions, parts, units = tables
    last = 0
    for number in range(len(terms)):
        start, slot = np.int64(begins[terms[number]]), slots[terms[number]]
        size = ends[terms[number]] - start
        rows, own = all_rows[last : last + size], values[start : start + size]
        last += size
        reached = np.empty(size, values.dtype)
        count = 0
        for i in range(size):
            positions[start + i] = rows[i] & (BLOCK - 1)
            if not (len(deleted) and deleted[rows[i]]):
                reached[count] = own[i]
                count += 1
        if slot >= 0:
            _block_table(start, (rows, own), pointers[slot], largest[slot])
            if units[slot, 1] >= 0:
                units[slot, 0] = max(own.max(), 0) // 255 + 1
                _part_table((rows, own), units[slot, 0], parts[units[slot, 1]])
        else:
            kept[-1 - slot : size - 1 - slot] = rows
        for power in range(known.shape[1] - 1, -1, -1):
            if count >= 10**power:
                known[number, power] = select_largest(reached, count, 10**power)
                count = 10**power  # the next is among these


@compiled
def _block_table(offset: int, postings: Array, pointers: Array, largest: Array) -> None:
    """Fill one term's row of the tables: each block's first posting, and its largest value."""
    rows, values = postings
    block = -1
    for i in range(len(rows)):
        while block < rows[i] >> BLOCK_BITS:
            block += 1
            pointers[block] = offset + i
        largest[block] = max(largest[block], values[i])
    while block < len(largest):
        block += 1
        pointers[block] = offset + len(rows)


@compiled
def _part_table(postings: Array, unit: int, parts: Array) -> None:
    """Fill one term's row of the largest values of parts, in units, rounded up."""
    rows, values = postings
    part, most = rows[0] >> PART_BITS, 0
    for i in range(len(rows)):
        if rows[i] >> PART_BITS != part:  # one division a part: they take longer than all else
            parts[part] = (most + unit - 1) // unit
            part, most = rows[i] >> PART_BITS, 0
        most = max(most, values[i])
    parts[part] = (most + unit - 1) // unit


@compiled
def _bound(
    query: Array, postings: Array, tables: Array, bound: Array, first: Array, part_bound: Array
) -> None:
    """Upper bounds of each block's documents; first postings of terms without tables, -1 for no posting."""
    terms, weights = query
    begins, ends, rows, values = postings
    slots, pointers, largest, positions, parts, units = tables
    bound[:] = 0
    is_long = len(terms) >= _MANY_TERMS
    if is_long:
        part_bound[:] = 0
    for t in range(len(terms)):
        slot, weight = slots[terms[t]], np.int32(weights[t])
        if slot >= 0:
            if not is_long:
                _add_times(bound, largest[slot], weight)
            elif units[slot, 1] >= 0:
                _add_times(part_bound, parts[units[slot, 1]], np.int32(units[slot, 0] * weight))
            else:
                _add_largest(part_bound, pointers[slot], positions, values, weight)
            continue
        first[t, :] = -1
        last, most = -1, np.int32(0)
        shift = -1 - np.int64(slot) - begins[terms[t]]
        for i in range(begins[terms[t]], ends[terms[t]]):
            block, value = rows[i + shift] >> BLOCK_BITS, values[i] * weight
            if block != last:
                first[t, block] = i
                bound[block] += value
                last, most = block, value
            elif value > most:
                bound[block] += value - most
                most = value
    if is_long:
        _add_highest(bound, part_bound)


@compiled
def _add_largest(part_bound: Array, pointers: Array, positions: Array, values: Array, weight: int) -> None:
    """Add a term's largest value in each part."""
    for block in range(len(pointers) - 1):
        last, most = -1, np.int32(0)
        for i in range(pointers[block], pointers[block + 1]):
            part, value = block * PARTS + (positions[i] >> PART_BITS), values[i] * weight
            if part != last:
                part_bound[part] += value
                last, most = part, value
            elif value > most:
                part_bound[part] += value - most
                most = value


@compiled
def _add_times(sums: Array, values: Array, times: int) -> None:
    for i in range(len(sums)):
        sums[i] += values[i] * times


@compiled
def _add_highest(bound: Array, part_bound: Array) -> None:
    """Add the highest bound of each block's parts to the block's."""
    for block in range(len(bound)):
        highest = np.int32(0)
        for part in range(block * PARTS, (block + 1) * PARTS):
            highest = max(highest, part_bound[part])
        bound[block] += highest


@compiled
def _floor_of_best(bound: Array, threshold: int, blocks: int) -> Any:
    """A bound that about ``blocks`` blocks reach, at least the threshold."""
    highest = threshold
    for block in range(len(bound)):
        highest = max(highest, bound[block])
    shift = 0
    while (highest - threshold) >> shift >= _BUCKETS:
        shift += 1
    counts = np.zeros(_BUCKETS, np.int64)
    for block in range(len(bound)):
        if bound[block] >= threshold:
            counts[(bound[block] - threshold) >> shift] += 1
    bucket, total = _BUCKETS - 1, counts[_BUCKETS - 1]
    while bucket > 0 and total + counts[bucket - 1] <= blocks:
        bucket -= 1
        total += counts[bucket]
    return threshold + (bucket << shift)


@partial(compiled, inline="always")
def _collect(
    block: int,
    ranks: Array,
    k: int,
    count: int,
    threshold: int,
    sums: Array,
    flags: Array,
    words: Array,
    keys: Array,
) -> tuple[int, int]:
    """Turn sums that reach the threshold into keys; raise it when the keys are full; clear the sums."""
    least, most = np.int32(threshold), np.int32(0)
    for position in range(BLOCK):
        most = max(most, sums[position])
    if most < least:
        sums[:] = 0
        return count, threshold
    for position in range(BLOCK):
        flags[position] = sums[position] >= least
    for word in range(BLOCK >> 3):
        left = words[word]  # eight documents at a time: few of a block are above the threshold
        while left != 0:
            lowest = left & (~left + np.uint64(1))
            left ^= lowest
            position = np.uint64(word << 3) + ((lowest * _POSITIONS) >> np.uint64(61))
            row = (block << BLOCK_BITS) + np.int64(position)
            if len(ranks[1]) and ranks[1][row]:
                continue
            keys[count] = _key(np.int64(sums[position]), row)
            count += 1
            if count == len(keys):
                count, threshold = k, max(threshold, _keep_best(keys, count, k, ranks[0]))
    sums[:] = 0
    return count, threshold


@compiled
def _key(steps: int, row: int) -> Any:
    """The key of a sum: equal float32 scores have equal upper halves."""
    return (np.uint64(np.int64(np.float32(steps))) << _HALF) | np.uint64(row)


@compiled
def _least_sum(steps: int) -> Any:
    """The smallest sum, at least 1, that float32 may round up to the score of ``steps``."""
    score = np.int64(np.float32(steps))
    return max(score - (score >> 24) - 1, np.int64(1))


@compiled
def _keep_best(keys: Array, count: int, k: int, rank: Array) -> Any:
    """Move the ``k`` best keys to the front; return the smallest sum that can still be among the best.

    Only documents that tie with the last of them are compared by docno, whose ranks are far apart in memory.
    """
    last = select_largest(keys, count, k) >> _HALF
    better, end = 0, k
    for i in range(k):
        if keys[i] >> _HALF > last:
            keys[i], keys[better] = keys[better], keys[i]
            better += 1
    for i in range(k, count):
        if keys[i] >> _HALF == last:
            keys[i], keys[end] = keys[end], keys[i]
            end += 1
    if end > k:
        ties = keys[better:end]
        for i in range(len(ties)):
            row = ties[i] & _ROW
            ties[i] = (np.uint64(rank[row]) << _HALF) | row
        select_largest(ties, len(ties), k - better)
        for i in range(k - better):
            ties[i] = (last << _HALF) | (ties[i] & _ROW)
    return _least_sum(last)
