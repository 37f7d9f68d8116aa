"""The passages of a file in an index, and the page and heading of a document where a query's terms stand."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from telerank.corpus.readers.files.folder import FileRecord, file_docno
from telerank.errors import UnknownDocument, nearest_name
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.types import PASSAGE, Location, Mark


def find_passages(docs: IndexDocs, file: str, records: Mapping[str, FileRecord]) -> list[str]:
    """The docnos of a file, by its path or its docno; see :meth:`telerank.Index.passages`.

    ``records`` have the order of the passages in a file; without them it is that of the index.
    """
    for name in dict.fromkeys((file, file_docno(file))):
        if docnos := docs.of_file(name):
            record = records.get(docs[docnos[0]].file)
            names = record.passages if record else ()
            order = {f"{name}{PASSAGE}{passage}": number for number, passage in enumerate(names)}
            return sorted(docnos, key=order.__getitem__) if order.keys() >= {*docnos} else docnos
    near = nearest_name(file, docs.files_and_docnos())
    hint = f"; did you mean {near!r}?" if near else ""
    raise UnknownDocument(f"{docs.index.folder}: no file and no document {file!r}{hint}")


def locate_terms(index: SparseIndex, docno: str, query: str) -> Location | None:
    """Where in its file most of a query's terms stand; see :meth:`telerank.Index.locate_hit`."""
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
