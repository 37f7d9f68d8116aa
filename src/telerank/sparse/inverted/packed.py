"""Ascending numbers in few bits: Elias–Fano codes (Vigna 2013) in an array of 64-bit words.

``count`` distinct numbers in ascending order, all below ``below``, take ``size_of(count, below)`` bits, about
2 + log2(below / count) for each. What is stored of the i-th is x = number - i, of at most ``below - count``:

1. the lowest ``width`` bits of each x, one after the other;
2. ``count + (below - count >> width)`` bits, of which those at (x >> width) + i are set.

Each number is written by itself, once its position is known: see :func:`put`. Words are zero before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled

Array = Any
WORD_BITS = 64
_BIT, _LOW, _HIGH = np.uint64(1), np.uint64(63), np.uint64(6)
_ALL = np.uint64(2**64 - 1)
# (a power of two times this) >> 58 is another number for each: a de Bruijn sequence
_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
_EXPONENTS = np.zeros(64, np.uint8)
_EXPONENTS[[(int(_SEQUENCE) << n & 2**64 - 1) >> 58 for n in range(64)]] = np.arange(64)


@compiled
def width_of(count: int, below: int) -> Any:
    """The number of low bits that are stored of each number."""
    width, quotient = 0, (below - count) // count
    while quotient > 1:
        quotient >>= 1
        width += 1
    return width


@compiled
def size_of(count: int, below: int) -> Any:
    """The bits that ``count`` numbers take."""
    width = width_of(count, below)
    return count * width + count + ((below - count) >> width)


@compiled
def put(words: Array, code: tuple[int, int, int], position: int, number: int) -> None:
    """Write the number at a position of a code: the bit at which it begins, its count and width."""
    start, count, width = code
    value = np.uint64(number - position)
    if width:
        low, at = value & ((_BIT << np.uint64(width)) - _BIT), np.uint64(start + position * width)
        shift = at & _LOW
        words[at >> _HIGH] |= low << shift
        if np.int64(shift) + width > WORD_BITS:
            words[(at >> _HIGH) + _BIT] |= low >> (np.uint64(WORD_BITS) - shift)
    at = np.uint64(start + count * width + position) + (value >> np.uint64(width))
    words[at >> _HIGH] |= _BIT << (at & _LOW)


@compiled
def take(words: Array, start: int, count: int, below: int, numbers: Array) -> Any:
    """Read ``count`` numbers (count,); False if this is no code of numbers below ``below``."""
    width = width_of(count, below)
    if start < 0 or start + size_of(count, below) > WORD_BITS * len(words):
        return False
    mask, narrow = (_BIT << np.uint64(width)) - _BIT, np.uint64(width)
    first = np.uint64(start + count * width)
    word = first >> _HIGH
    bits = words[word] & (_ALL << (first & _LOW))
    done, at, largest = 0, np.uint64(start), np.int64(0)
    while True:
        while bits != 0 and done < count:
            lowest = bits & (~bits + _BIT)
            bits ^= lowest
            bit = (word << _HIGH) + np.uint64(_EXPONENTS[(lowest * _SEQUENCE) >> np.uint64(58)]) - first
            value = (bit - np.uint64(done)) << narrow
            if width:
                shift = at & _LOW
                low = words[at >> _HIGH] >> shift
                if shift + narrow > np.uint64(WORD_BITS):
                    low |= words[(at >> _HIGH) + _BIT] << (np.uint64(WORD_BITS) - shift)
                value |= low & mask
                at += narrow
            number = np.int64(value) + done
            numbers[done] = number
            largest = max(largest, number)
            done += 1
        word += _BIT
        if done == count or word >= np.uint64(len(words)):
            return done == count and largest < below
        bits = words[word]


def take_by_numpy(
    words: npt.NDArray[np.uint64], start: int, count: int, below: int
) -> tuple[npt.NDArray[np.int64] | None, int]:
    """The same without numba: the numbers, or None; and the bit at which their code ends."""
    width = max(((below - count) // count).bit_length() - 1, 0)
    end = start + count * width + count + ((below - count) >> width)
    if start < 0 or end > WORD_BITS * len(words):
        return None, end
    part = words[start >> 6 : (end + 63) >> 6].view(np.uint8)
    bits = np.unpackbits(part, bitorder="little")[start & 63 :][: end - start]
    high = np.flatnonzero(bits[count * width :])[:count]
    if len(high) < count:
        return None, end
    order = np.arange(count)
    numbers = ((high - order) << width) + order
    low = np.zeros((count, -(-width // 8), 8), np.uint8)
    low.reshape(count, -1)[:, :width] = bits[: count * width].reshape(count, width)
    for byte in range(low.shape[1]):
        numbers += np.packbits(low[:, byte], bitorder="little").astype(np.int64) << 8 * byte
    return (numbers if int(numbers.max()) < below else None), end
