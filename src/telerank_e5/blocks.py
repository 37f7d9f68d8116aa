"""Numbers in four bits: blocks of 32, each a scale in float16, little-endian, and 16 bytes.

The low halves of the bytes are the first 16 numbers, the high halves the others, each plus 8: a number is its
block's scale times -8 to 7.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK, BLOCK_BYTES = 32, 18
_CHUNK = 1 << 16  # blocks that are unpacked at a time
_FEW = 1 << 13  # blocks that are packed at a time: their trials fit a cache
_LARGEST = float(np.finfo(np.float16).max)
_SHARES = (1.0, 0.92, 0.84, 0.76, 0.68)
"""Of the scale with which no number is beyond -8 to 7: what a smaller one cuts off, it gains elsewhere."""

Floats = npt.NDArray[np.float32]


def unpack_blocks(blocks: npt.NDArray[np.uint8]) -> Floats:
    """Blocks of bytes, (blocks, 18) -> numbers, (blocks, 32)."""
    numbers = np.empty((len(blocks), BLOCK), np.float32)
    for start in range(0, len(blocks), _CHUNK):
        chunk = blocks[start : start + _CHUNK]
        scales, codes = chunk[:, :2].copy().view("<f2").astype(np.float32), chunk[:, 2:]
        part = numbers[start : start + _CHUNK]
        part[:, :16], part[:, 16:] = codes & 15, codes >> 4
        part -= 8
        part *= scales
    return numbers


def pack_blocks(numbers: Floats) -> npt.NDArray[np.uint8]:
    """Numbers, (blocks, 32) -> blocks of bytes, (blocks, 18), with a small squared error.

    For each block several scales are tried, of both signs, as there is a -8 and no 8; each gives the codes
    that are nearest, and these the scale that fits them best, by least squares.

    Raises
    ------
    ValueError
        If a number is not finite, or larger than any scale in float16 allows.
    """
    if not (np.abs(numbers) <= 7 * _LARGEST).all():  # false of NaN, too
        raise ValueError(f"numbers of blocks are finite and at most {7 * _LARGEST:,.0f}")
    blocks = np.empty((len(numbers), BLOCK_BYTES), np.uint8)
    for start in range(0, len(numbers), _FEW):
        scales, codes = _fit(numbers[start : start + _FEW])
        part, plus = blocks[start : start + _FEW], (codes + 8).astype(np.uint8)
        part[:, :2] = scales.astype("<f2").view(np.uint8)
        part[:, 2:] = plus[:, :16] | plus[:, 16:] << 4
    return blocks


def _fit(numbers: Floats) -> tuple[Floats, Floats]:
    """The best scales, (blocks, 1), rounded to float16, and codes, (blocks, 32)."""
    rows = np.arange(len(numbers))
    extreme = numbers[rows, np.abs(numbers).argmax(1)][:, None]
    best = np.zeros_like(extreme)
    codes, errors = np.zeros_like(numbers), (numbers**2).sum(1)
    for first in [extreme * share / (-8 if flip else 7) for share in _SHARES for flip in (True, False)]:
        nearest = _codes(numbers, first)
        squares = (nearest**2).sum(1, keepdims=True)
        fitted = (numbers * nearest).sum(1, keepdims=True) / np.maximum(squares, 1)
        scale = _in_float16(fitted)
        nearest = _codes(numbers, scale)
        error = ((numbers - scale * nearest) ** 2).sum(1)
        better = error < errors
        best[better], codes[better], errors[better] = scale[better], nearest[better], error[better]
    return best, codes


def _codes(numbers: Floats, scales: Floats) -> Floats:
    """The nearest codes; 0 where a scale is 0."""
    return np.clip(np.rint(np.divide(numbers, scales, out=np.zeros_like(numbers), where=scales != 0)), -8, 7)


def _in_float16(scales: Floats) -> Floats:
    return np.clip(scales, -_LARGEST, _LARGEST).astype(np.float16).astype(np.float32)
