"""Types of stored vectors: float32, float16, bfloat16, or bytes with a scale for each row.

numpy has no bfloat16: its bits are stored as uint16, the upper half of a float32's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.errors import DocumentError, ModelError

KINDS = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "int8": np.int8}
"""The numpy type of each in a file."""
LARGEST_NORM = 1e18  # the inner product of two such vectors is still a finite float32

Floats = npt.NDArray[np.float32]


def check_kind(kind: str) -> None:
    """Raise ModelError if ``kind`` is none of :data:`KINDS`."""
    if kind not in KINDS:
        raise ModelError(f"no type of vectors is called {kind!r}; there are: {', '.join(KINDS)}")


def check_vectors(vectors: Floats, what: str) -> None:
    """Raise DocumentError, naming the first vector whose scores would not be finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
    wrong = np.flatnonzero(~(norms <= LARGEST_NORM))
    if len(wrong):
        raise DocumentError(f"{what} {wrong[0] + 1}: its vector has a length of {norms[wrong[0]]}")


def narrow(vectors: Floats, kind: str) -> npt.NDArray[Any]:
    """Convert float32 vectors (N, D) to ``kind``, rounding to nearest (ties to even); not for ``int8``.

    Raises DocumentError if a number is too large for float16.
    """
    if kind == "float32":
        return np.ascontiguousarray(vectors, np.float32)
    if kind == "float16":
        with np.errstate(over="ignore"):
            half = vectors.astype(np.float16)
        if not np.isfinite(half).all():
            raise DocumentError("a number of a vector is beyond float16 (65504): choose bfloat16 or float32")
        return half
    bits = np.ascontiguousarray(vectors, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(
        np.uint16
    )


def widen(stored: npt.NDArray[Any], kind: str) -> Floats:
    """Convert vectors (N, D) back to float32."""
    if kind == "bfloat16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32)
