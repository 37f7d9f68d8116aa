"""The compiled loop of :mod:`telerank.corpus.docnos`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled


@compiled
def gather(
    blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.signedinteger], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Join the lines of ``rows``, the last without its line end; an empty array if a row does not exist."""
    total, touched = 0, np.uint8(0)
    for row in rows:
        if row < 0 or row >= len(offsets) - 1:
            return np.empty(0, np.uint8)
        total += offsets[row + 1] - offsets[row]
        # touching all lines first overlaps their fetches: copying line by line takes three times as long
        touched |= blob[offsets[row]]
    joined = np.empty(total, np.uint8)
    joined[0] = touched  # used, so that the compiler keeps the reads
    end = np.uint64(0)
    for row in rows:
        for source in range(np.uint64(offsets[row]), np.uint64(offsets[row + 1])):
            joined[end] = blob[source]
            end += np.uint64(1)
    return joined[: total - 1]
