"""Queries with their judgments, and their split into those that choose settings and those that measure."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.types import Qrels, Query


@dataclass(frozen=True, eq=False)
class JudgedQueries:
    """Queries with their judgments; every query of ``qrels`` counts in a mean."""

    queries: tuple[Query, ...]
    qrels: Qrels

    @classmethod
    def of(cls, collection: Collection, split: str | None = None) -> JudgedQueries:
        """The judged queries of a split; raises CollectionError if there are none."""
        qrels = collection.judged(split)
        queries = tuple(query for query in collection.split_queries(split) if query.qid in qrels)
        if not queries:
            raise CollectionError(
                f"{collection.name}: no query of split {collection.resolve_split(split)} is judged"
            )
        return cls(queries, {query.qid: qrels[query.qid] for query in queries})

    def deal(
        self, dev: int, measuring: int | None = None, seed: int = 0
    ) -> tuple[JudgedQueries, JudgedQueries]:
        """``dev`` queries that choose, and ``measuring`` others (None: all others), drawn by ``seed``.

        The order of the queries does not matter to the draw, and stays in both parts.
        """
        deck = sorted(query.qid for query in self.queries)
        count = len(deck) - dev if measuring is None else measuring
        if dev < 2 or count < 1 or dev + count > len(deck):
            rest = "the others" if measuring is None else measuring
            raise CollectionError(
                f"{len(deck)} judged queries cannot be dealt into {dev} that choose and {rest} that measure"
            )
        random.Random(seed).shuffle(deck)
        return self.select(deck[:dev]), self.select(deck[dev : dev + count])

    def select(self, qids: Iterable[str]) -> JudgedQueries:
        """Those of the queries that have these qids."""
        kept = set(qids)
        queries = tuple(query for query in self.queries if query.qid in kept)
        return JudgedQueries(queries, {query.qid: self.qrels[query.qid] for query in queries})
