"""Stage: a verb that maps a stream of rankings to a stream of rankings, and the algebra of stages.

====================  ==========================================================
``a >> b``            ``b`` works on what ``a`` found
``a % k``             ``a``, cut to its first ``k``
``a + b``             scores added; a document that one list lacks counts 0 there
``w * a``             scores multiplied by ``w``
====================  ==========================================================

Only operators that bind tighter than ``>>`` are used, so that pipelines need no parentheses.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from telerank.types import Explanation, Query, Ranking


class Stage(ABC):
    """Maps rankings to rankings, one for one: lazily, keeping the queries and their order.

    A retriever ignores the documents of what comes in; a re-ranker scores them anew. Concrete stages
    are frozen dataclasses and final, so that ``repr``, ``==`` and hashing come with them. The laws
    that every stage obeys are in :mod:`telerank.testing`.
    """

    @abstractmethod
    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]: ...

    @abstractmethod
    def explain(self, query: Query, docno: str) -> Explanation:
        """Why ``docno`` has the score that this stage gives it for ``query``.

        Raises
        ------
        KeyError
            where the stage knows no such document.
        """

    def limit(self, k: int) -> Stage:
        """This stage, keeping the first ``k``; a retriever answers "myself, retrieving k"."""
        return Cut(self, k)

    def search(self, query: Query | str) -> Ranking:
        """The ranking of one query."""
        bare = Query("query", query) if isinstance(query, str) else query
        return next(self([Ranking(bare)]))

    def run(self, queries: Iterable[Query]) -> Iterator[Ranking]:
        """The rankings of queries, lazily, in their order."""
        return self(Ranking(query) for query in queries)

    def __rshift__(self, other: Stage) -> Stage:
        if not isinstance(other, Stage):
            return NotImplemented
        return Chain((*_parts(self, Chain), *_parts(other, Chain)))

    def __mod__(self, k: int) -> Stage:
        return self.limit(check_depth(k))

    def __add__(self, other: Stage) -> Stage:
        if not isinstance(other, Stage):
            return NotImplemented
        return Sum((*_parts(self, Sum), *_parts(other, Sum)))

    def __mul__(self, weight: float) -> Stage:
        return Weighted(self, float(weight))

    __rmul__ = __mul__


@dataclass(frozen=True)
class Chain(Stage):
    """``a >> b >> c``."""

    stages: tuple[Stage, ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for stage in self.stages:
            stream = stage(stream)
        return iter(stream)

    def limit(self, k: int) -> Stage:
        return Chain((*self.stages[:-1], self.stages[-1].limit(k)))

    def explain(self, query: Query, docno: str) -> Explanation:
        return self.stages[-1].explain(query, docno)


@dataclass(frozen=True)
class Cut(Stage):
    """``a % k`` of a stage that cannot itself retrieve less."""

    stage: Stage
    k: int

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (ranking.cut(self.k) for ranking in self.stage(stream))

    def limit(self, k: int) -> Stage:
        return Cut(self.stage, min(self.k, k))

    def explain(self, query: Query, docno: str) -> Explanation:
        return self.stage.explain(query, docno)


@dataclass(frozen=True)
class Weighted(Stage):
    """``w * a``; a negative weight turns the list over."""

    stage: Stage
    weight: float

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (Ranking.ranked(r.query, r.docnos, r.scores * np.float32(self.weight)) for r in self.stage(stream))

    def explain(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        return Explanation(float(np.float32(self.weight) * np.float32(part.value)), f"{self.weight} times", (part,))


@dataclass(frozen=True)
class Sum(Stage):
    """``a + b + c``: the stages read the same stream side by side; what a list lacks counts 0 there."""

    stages: tuple[Stage, ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        copies = itertools.tee(stream, len(self.stages))
        streams = [stage(copy) for stage, copy in zip(self.stages, copies, strict=True)]
        return (_added(rankings) for rankings in zip(*streams, strict=True))

    def explain(self, query: Query, docno: str) -> Explanation:
        parts = tuple(stage.explain(query, docno) for stage in self.stages)
        return Explanation(float(np.float32(sum(part.value for part in parts))), "sum of", parts)


def check_depth(k: int) -> int:
    """``k``, if it is a number of documents that a list can be cut to."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"a cut must be a whole number of at least 1, got {k!r}")
    return k


def _parts(stage: Stage, kind: type[Chain] | type[Sum]) -> tuple[Stage, ...]:
    return stage.stages if isinstance(stage, kind) else (stage,)


def _added(rankings: tuple[Ranking, ...]) -> Ranking:
    query = rankings[0].query
    totals: dict[str, float] = {}
    for ranking in rankings:
        if ranking.query != query:
            raise ValueError(f"stages of a sum disagree: query {ranking.query.qid!r} beside {query.qid!r}")
        for docno, score in ranking:
            totals[docno] = totals.get(docno, 0.0) + score
    return Ranking.ranked(query, tuple(totals), np.array(list(totals.values()), dtype=np.float32))
