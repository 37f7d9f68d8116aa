"""Where in a document of a file a query's terms stand."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

from telerank.sparse.index import SparseIndex
from telerank.types import Location, Mark


def locate_hit(index: SparseIndex, docno: str, query: str) -> Location | None:
    """File, page and heading of a document's text; see :meth:`telerank.Index.locate_hit`."""
    doc = index.docs[docno]
    whole = doc.locate()
    if whole is None or len(doc.marks) < 2:
        return whole
    # a term counts the more, the rarer it is in the index
    weights = {term: math.log(1 + len(index) / (1 + index.term(term).df)) for term in index.analyzer(query)}

    def weigh(terms: set[str]) -> float:
        return sum(weights[term] for term in terms)

    by_mark: dict[Mark, set[str]] = {}
    by_page: dict[int, set[str]] = defaultdict(set)
    starts = [*(mark.start for mark in doc.marks), len(doc.text)]
    for mark, (start, end) in zip(doc.marks, pairwise(starts), strict=True):
        by_mark[mark] = weights.keys() & index.analyzer(f"{mark.heading}\n{doc.text[start:end]}")
        by_page[mark.page] |= by_mark[mark]
    page = max(by_page, key=lambda number: weigh(by_page[number]))  # of equal pages the first
    if not by_page[page]:
        return whole
    on_page = [mark for mark in doc.marks if mark.page == page]
    best = max(on_page, key=lambda mark: weigh(by_mark[mark]))
    return Location(doc.file, page, page, best.heading)
