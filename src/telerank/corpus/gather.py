"""The one loop of :mod:`telerank.corpus.docnos` that Python would be too slow for."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt


@numba.njit(cache=True, nogil=True)
def gather(
    blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.signedinteger], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """The lines of ``rows`` one after the other, the last without its end; nothing if a row is not there."""
    total = 0
    for row in rows:
        if row < 0 or row >= len(offsets) - 1:
            return np.empty(0, np.uint8)
        total += offsets[row + 1] - offsets[row]
    found = np.empty(total, np.uint8)
    place = 0
    for row in rows:
        for source in range(offsets[row], offsets[row + 1]):
            found[place] = blob[source]
            place += 1
    return found[: total - 1]
