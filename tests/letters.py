"""A small retriever and a small re-ranker that tests of the algebra use: what they do can be checked by eye."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking

DOCS = ("ace", "bad", "bee", "cab", "dab", "face", "bear attacks", "zebra")


@dataclass(frozen=True)
class Letters(Stage):
    """Finds the documents that share letters with the query; the score is the number of the letters shared."""

    docs: tuple[str, ...] = DOCS
    depth: int = 100

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            found = {doc: len(_shared(ranking.query, doc)) for doc in self.docs}
            scores = {doc: score for doc, score in found.items() if score}
            yield Ranking.ranked(ranking.query, tuple(scores), list(scores.values())).cut(self.depth)

    def limit(self, k: int) -> Stage:
        return replace(self, depth=min(k, self.depth))

    def explanation(self, query: Query, docno: str) -> Explanation:
        if docno not in self.docs:
            raise KeyError(docno)
        shared = _shared(query, docno)
        return Explanation(
            float(len(shared)), "letters shared", tuple(Explanation(1.0, one) for one in sorted(shared))
        )


@dataclass(frozen=True)
class ByLength(Stage):
    """Scores what it is given by the length of its name, reading ahead ``batch`` queries."""

    batch: int = 1

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        rankings = iter(stream)
        while batch := list(islice(rankings, self.batch)):
            for ranking in batch:
                yield Ranking.ranked(ranking.query, ranking.docnos, [len(docno) for docno in ranking.docnos])

    def explanation(self, query: Query, docno: str) -> Explanation:  # noqa: ARG002
        if docno not in DOCS:
            raise KeyError(docno)
        return Explanation(float(len(docno)), "letters of the name")


def _shared(query: Query, doc: str) -> set[str]:
    return set(query.text) & set(doc) - {" "}
