"""Where in its file a hit stands: the page whose text has most of the query's terms."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from telerank.sparse.index import SparseIndex
from telerank.types import Doc, Location


def locate_hit(index: SparseIndex, doc: Doc, query: str) -> Location | None:
    """The page of a document where most of a query's terms stand, and the heading there.

    A term counts the more, the rarer it is in the index; of equal pages the first is taken. Without a match
    it is the location of the whole text, and None if the document has no file.
    """
    whole = doc.locate()
    if whole is None or len(doc.marks) < 2:
        return whole
    weights = {term: math.log(1 + len(index) / (1 + index.term(term).df)) for term in index.analyzer(query)}
    starts = [mark.start for mark in doc.marks]
    stretches = [
        {term for term in index.analyzer(doc.text[start:end]) if term in weights}
        for start, end in pairwise([*starts, len(doc.text)])
    ]
    by_page: dict[int, set[str]] = defaultdict(set)
    for mark, terms in zip(doc.marks, stretches, strict=True):
        by_page[mark.page] |= terms
    page = max(by_page, key=lambda number: _weigh(by_page[number], weights))
    if not by_page[page]:
        return whole
    own = [(mark, terms) for mark, terms in zip(doc.marks, stretches, strict=True) if mark.page == page]
    heading = max(own, key=lambda stretch: _weigh(stretch[1], weights))[0].heading
    return Location(doc.file, page, page, heading)


def _weigh(terms: set[str], weights: Mapping[str, float]) -> float:
    return sum(weights[term] for term in terms)
