"""How many documents an index has for a query."""

from __future__ import annotations

import numpy as np

from telerank.sparse.index import SparseIndex

POSTINGS = 2_000_000
"""Postings that are counted: some ten milliseconds."""


def count_matches(index: SparseIndex, text: str, most: int = POSTINGS) -> int | None:
    """The documents that hold a term of a text; None if its terms have ``most`` postings or more."""
    terms = {index.term(term) for term in index.analyzer(text)}
    if sum(term.df for term in terms) >= most:
        return None
    count = 0
    for number, segment in enumerate(index.segments):
        holding = np.zeros(len(segment), np.bool_)
        for known in (term.numbers[number] for term in terms):
            if known >= 0:
                holding[segment.rows[segment.offsets[known] : segment.offsets[known + 1]]] = True
        if len(segment.deleted):
            holding &= ~segment.deleted
        count += int(np.count_nonzero(holding))
    return count
