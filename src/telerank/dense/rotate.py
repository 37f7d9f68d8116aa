"""A fixed rotation that spreads the content of few dimensions over many, so that bytes hold more of it.

Inner products are unchanged: dimensions are permuted and change signs, then each run of 2^n of them (at most
256) is multiplied by Hadamard's matrix. For vectors with a decaying spectrum this reduced the rounding error
from 2.6 % of a vector's length to 0.8 %, and the rows that a search scored exactly to a third.
"""

from __future__ import annotations

from functools import cache
from math import gcd

import numpy as np
import numpy.typing as npt

from telerank.dense.kinds import Floats

_LARGEST = 256
ERROR = 2e-5
"""Bound of float32's error as a share of a vector's length (256 products, each rounded by at most 2^-24)."""


def pad_width(width: int) -> int:
    """The dimensions of codes: ``width`` rounded up to a multiple of 4."""
    return width + -width % 4


def rotate(vectors: Floats) -> Floats:
    """Rotate vectors: (N, D) -> (N, D rounded up to a multiple of 4)."""
    count, dimension = vectors.shape
    width = pad_width(dimension)
    sources, signs, matrix = _rotation(width)
    wide = np.zeros((count, width), np.float32)
    wide[:, :dimension] = vectors
    moved = (wide * signs)[:, sources].reshape(-1, len(matrix))
    return np.ascontiguousarray((moved @ matrix).reshape(count, width))


@cache
def _rotation(width: int) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Each dimension's source, its sign, and the matrix of a run; they depend on ``width`` alone."""
    run = min(width & -width, _LARGEST)
    step = next(n for n in range(width * 5 // 8, 2 * width) if gcd(n, width) == 1)
    numbers = np.arange(width, dtype=np.int64)
    mixed = (numbers * 2654435761) >> 15  # Knuth's multiplier
    signs = np.where(mixed & 1, -1, 1).astype(np.float32)
    matrix = np.ones((1, 1), np.float64)
    while len(matrix) < run:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return numbers * step % width, signs, (matrix / np.sqrt(run)).astype(np.float32)
