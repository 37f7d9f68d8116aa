"""The documents that fulfil the conditions of a query that has no words to rank them by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from telerank.columns.filters import Filter
from telerank.sparse.boolean import rank_alike
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.stage import Retriever
from telerank.types import Explanation, Query, Ranking


@dataclass(frozen=True, repr=False)
class Listing(Retriever):
    """The documents that pass a filter, all with the score 1, whatever the query is."""

    index: SparseIndex
    chosen: Filter
    depth: int | None = None
    batch: int = field(default=1, compare=False)
    threads: int = field(default=1, compare=False)
    searches_within = True
    role = "words"
    call = "listing"

    def rank_batch(self, queries: list[Query]) -> Iterator[Ranking]:
        for query in queries:
            selections = self.index.selections(self.chosen)
            yield rank_alike(self.index, query, (~each.hidden for each in selections), self.depth)

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        number, row = self.index.docs.locate(docno)
        if self.index.selections(self.chosen)[number].hidden[row]:
            raise KeyError(docno)
        return Explanation(1.0, "listed, since the query has no words that rank")

    def count(self) -> int:
        """How many documents there are."""
        return sum(selection.count for selection in self.index.selections(self.chosen))

    @property
    def docs(self) -> IndexDocs:
        """The documents of the index."""
        return self.index.docs
