"""The surfaces of a stretch of texts: its distinct pieces, cut in UTF-8 where every tokenizer cuts.

What stands between two ASCII characters that no token holds (blanks, brackets, a full stop outside a number)
can be analysed by itself. So texts are cut there, equal pieces are found by hashing, and each distinct piece,
such as "word", "l’État", "(“" or "naïve…", is analysed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.text.tokenizers import BELONGS, JOINS

_GAP = b"\n"  # between texts; separates tokens for every tokenizer


def find_surfaces(
    texts: Sequence[str], classes: bytes
) -> tuple[list[bytes], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The distinct pieces, the number of each piece among them (P,), and the end of each text's pieces (N,).

    ``classes`` says for each byte whether it separates, belongs to a piece, or joins two bytes that do.
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    joined = _GAP.join(encoded) + _GAP
    text_ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    data = np.frombuffer(joined, np.uint8)
    starts, ends, hashes, piece_ends = _cut(data, text_ends, np.frombuffer(classes, np.uint8))
    which, firsts = _number_pieces(data, starts, ends, hashes)
    spans = zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True)
    return [joined[start:end] for start, end in spans], which, piece_ends


@compiled
def _cut(data: Any, text_ends: Any, classes: Any) -> tuple[Any, Any, Any, Any]:
    """Start, end and hash (FNV-1a) of each piece, and the number of pieces up to each text's end."""
    most = (len(data) + 1) >> 1
    starts, ends = np.empty(most, np.int32), np.empty(most, np.int32)
    hashes = np.empty(most, np.uint64)
    piece_ends = np.empty(len(text_ends), np.int64)
    count, i = 0, 0
    for text in range(len(text_ends)):
        while i < text_ends[text]:
            if classes[data[i]] != BELONGS:
                i += 1
                continue
            starts[count] = i
            value = np.uint64(14695981039346656037)
            while True:  # the gap after the last text ends the last piece
                kind = classes[data[i]]
                if kind != BELONGS and not (kind == JOINS and classes[data[i + 1]] == BELONGS):
                    break
                value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
                i += 1
            ends[count], hashes[count] = i, value
            count += 1
        piece_ends[text] = count
    return starts[:count], ends[:count], hashes[:count], piece_ends


@compiled
def _number_pieces(data: Any, starts: Any, ends: Any, hashes: Any) -> tuple[Any, Any]:
    """The number of each piece among the distinct ones, and the first piece of each number."""
    slots = np.full(1 << 14, -1, np.int32)  # grows with the distinct pieces: a small table stays in the cache
    which, firsts = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
    known = np.empty(len(starts), np.uint64)  # hashes of distinct pieces
    count = 0
    for piece in range(len(starts)):
        mask = np.uint64(len(slots) - 1)
        slot = hashes[piece] & mask
        while slots[slot] >= 0:
            if known[slots[slot]] == hashes[piece] and _equal(data, starts, ends, firsts[slots[slot]], piece):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot], firsts[count], known[count] = count, piece, hashes[piece]
            count += 1
        which[piece] = slots[slot]
        if 2 * count > len(slots):
            slots = _grow(known[:count], 4 * len(slots))
    return which, firsts[:count]


@compiled
def _grow(known: Any, size: int) -> Any:
    slots, mask = np.full(size, -1, np.int32), np.uint64(size - 1)
    for number in range(len(known)):
        slot = known[number] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
    return slots


@compiled
def _equal(data: Any, starts: Any, ends: Any, first: int, second: int) -> Any:
    length = ends[first] - starts[first]
    if ends[second] - starts[second] != length:
        return False
    for i in range(length):  # noqa: SIM110 — numba does not compile generators
        if data[starts[first] + i] != data[starts[second] + i]:
            return False
    return True
