"""The one loop of :mod:`telerank.corpus.docnos` that Python would be too slow for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled


@compiled
def gather(
    blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.signedinteger], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """The lines of ``rows`` one after the other, the last without its end; nothing if a row is not there."""
    total, touched = 0, np.uint8(0)
    for row in rows:
        if row < 0 or row >= len(offsets) - 1:
            return np.empty(0, np.uint8)
        total += offsets[row + 1] - offsets[row]
        # fetches the lines all at once: copied one by one, each would be waited for (three times as long)
        touched |= blob[offsets[row]]
    found = np.empty(total, np.uint8)
    found[0] = touched  # read, or the compiler would leave the fetching out
    place = np.uint64(0)
    for row in rows:
        for source in range(np.uint64(offsets[row]), np.uint64(offsets[row + 1])):
            found[place] = blob[source]
            place += np.uint64(1)
    return found[: total - 1]
