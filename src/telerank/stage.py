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
import operator
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
        """The first ``k`` of what this stage gives; a retriever answers "myself, retrieving at most k"."""
        return Cut(self, k)

    def after(self, first: Stage) -> Stage:
        """What ``first >> self`` is; a stage made of stages gives ``first`` to each of them instead.

        So a pipeline can explain a score that depends on a list: ``first >> minmax(reranker)`` is
        ``minmax(first >> reranker)``.
        """
        return first >> self

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
        *before, last = self.stages
        whole = last.after(Chain(tuple(before)))
        # what scores documents one by one explains a score without running what feeds it
        return (last if isinstance(whole, Chain) else whole).explain(query, docno)


@dataclass(frozen=True)
class Cut(Stage):
    """``a % k`` of a stage that cannot itself retrieve less."""

    stage: Stage
    k: int

    def __post_init__(self) -> None:
        check_depth(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (ranking.cut(self.k) for ranking in self.stage(stream))

    def limit(self, k: int) -> Stage:
        return Cut(self.stage, min(self.k, k))

    def after(self, first: Stage) -> Stage:
        return Cut(self.stage.after(first), self.k)

    def explain(self, query: Query, docno: str) -> Explanation:
        return self.stage.explain(query, docno)


@dataclass(frozen=True)
class Weighted(Stage):
    """``w * a``; a negative weight turns the list over."""

    stage: Stage
    weight: float

    def __post_init__(self) -> None:
        if not abs(self.weight) <= float(np.finfo(np.float32).max):
            raise ValueError(f"a weight must be a finite number, got {self.weight!r}")

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (_scaled(ranking, self.weight) for ranking in self.stage(stream))

    def after(self, first: Stage) -> Stage:
        return Weighted(self.stage.after(first), self.weight)

    def explain(self, query: Query, docno: str) -> Explanation:
        part = self.stage.explain(query, docno)
        value = np.float32(self.weight) * np.float32(part.value)
        return Explanation(float(value), f"{self.weight} times", (part,))


@dataclass(frozen=True)
class Sum(Stage):
    """``a + b + c``: the stages read the same stream side by side; what a list lacks counts 0 there."""

    stages: tuple[Stage, ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        copies = itertools.tee(stream, len(self.stages))
        streams = [stage(copy) for stage, copy in zip(self.stages, copies, strict=True)]
        return (_added(rankings) for rankings in zip(*streams, strict=True))

    def after(self, first: Stage) -> Stage:
        return Sum(tuple(stage.after(first) for stage in self.stages))

    def explain(self, query: Query, docno: str) -> Explanation:
        parts = [_share(stage, query, docno) for stage in self.stages]
        if not any(parts):
            raise KeyError(docno)
        known = tuple(part or Explanation(0.0, "an unknown document there") for part in parts)
        return Explanation(float(np.float32(sum(part.value for part in known))), "sum of", known)


def check_depth(k: int) -> int:
    """``k`` (numpy's whole numbers, too), if it is a number of documents that a list can be cut to."""
    if isinstance(k, bool) or not hasattr(k, "__index__") or k < 1:
        raise ValueError(f"a cut must be a whole number of at least 1, got {k!r}")
    return operator.index(k)


def _parts(stage: Stage, kind: type[Chain | Sum]) -> tuple[Stage, ...]:
    return stage.stages if isinstance(stage, kind) else (stage,)


def _scaled(ranking: Ranking, weight: float) -> Ranking:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which the ranking refuses
        return Ranking.ranked(ranking.query, ranking.docnos, ranking.scores * np.float32(weight))


def _share(stage: Stage, query: Query, docno: str) -> Explanation | None:
    """What ``docno`` gets from one stage of a sum: nothing where the stage's own list lacks it."""
    try:
        part = stage.explain(query, docno)
    except KeyError:
        return None
    # a retriever finds what it finds; a re-ranker is given the document
    listed = next(stage([Ranking(query, (docno,), np.zeros(1, np.float32))])).docnos
    return part if docno in listed else Explanation(0.0, f"not among the {len(listed)} found there", (part,))


def _added(rankings: tuple[Ranking, ...]) -> Ranking:
    query = rankings[0].query
    totals: dict[str, float] = {}
    for ranking in rankings:
        if ranking.query != query:
            raise ValueError(f"stages of a sum disagree: query {ranking.query.qid!r} beside {query.qid!r}")
        for docno, score in ranking:
            totals[docno] = totals.get(docno, 0.0) + score
    return Ranking.ranked(query, tuple(totals), np.array(list(totals.values()), dtype=np.float32))
