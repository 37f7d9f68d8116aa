"""The documents that hold terms one behind the other, by their positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from telerank.sparse.inverted.lists import InvertedFile
from telerank.sparse.inverted.postings import Numbers

_HALF = 32


def phrase_rows(file: InvertedFile, terms: Sequence[str]) -> npt.NDArray[np.int32]:
    """The rows (n,) of the documents that hold the terms in this order, each directly behind the other.

    Ascending; none if there are no terms.
    """
    numbers = [file.find(term) for term in terms]
    if not terms or min(numbers) < 0:
        return np.empty(0, np.int32)
    # from the rarest on: what is compared with the others is as little as can be
    order = sorted(range(len(terms)), key=lambda offset: file.cf(numbers[offset]))
    begins = reduce(_both, (_begins(file, numbers[offset], offset) for offset in order))
    return np.unique(begins >> _HALF).astype(np.int32)


def _begins(file: InvertedFile, term: int, offset: int) -> Numbers:
    """Where phrases begin that have a term at an offset: rows, above positions."""
    rows, tfs, positions = file.read_positions(term)
    rows = np.repeat(rows, tfs)
    behind = positions >= offset
    return (rows[behind].astype(np.int64) << _HALF) | (positions[behind] - offset)


def _both(first: Numbers, second: Numbers) -> Numbers:
    """What is in two ascending lists."""
    if not len(second):
        return second
    nearest = np.minimum(np.searchsorted(second, first), len(second) - 1)
    both: Numbers = first[second[nearest] == first]
    return both
