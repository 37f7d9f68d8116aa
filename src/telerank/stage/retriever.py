"""The base of first stages, which find documents for queries."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Self, TypeVar

from telerank.columns.filters import Filter
from telerank.expressions import depth_text
from telerank.stage.algebra import CALL, PRODUCT, Stage, check_depth
from telerank.stage.where import Where, where_text
from telerank.types import Query, Ranking

T = TypeVar("T")


class Retriever(Stage):
    """A first stage, which answers ``batch`` queries at a time; ``depth`` None keeps all their documents.

    One that searches within a filter itself has a field ``chosen``, and sets ``searches_within``.
    """

    depth: int | None
    batch: int
    chosen: Filter | None = None
    searches_within = False

    @abstractmethod
    def rank_batch(self, queries: list[Query]) -> Iterable[Ranking]:
        """The rankings of queries, in their order."""

    @property
    @abstractmethod
    def call(self) -> str:
        """The text of the retriever without its depth and its filter."""

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_depth(self.depth)
        check_depth(self.batch)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return itertools.chain.from_iterable(map(self.rank_batch, batch_queries(stream, self.batch)))

    def in_batches(self, batch: int, threads: int = 1) -> Self:
        return replace(self, batch=batch, threads=threads)  # type: ignore[type-var]

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:  # noqa: ARG002
        if self.searches_within:
            return replace(self, chosen=chosen.both(self.chosen))  # type: ignore[type-var]
        whole = Where(replace(self, depth=None), chosen)  # type: ignore[type-var]
        return whole if self.depth is None else whole % self.depth

    def limit(self, k: int) -> Self:
        return replace(self, depth=k if self.depth is None else min(self.depth, k))  # type: ignore[type-var]

    @property
    def text(self) -> str:
        call = self.call if self.chosen is None else where_text(self.call, self.chosen)
        return depth_text(call, self.depth)

    @property
    def binding(self) -> int:
        return CALL if self.depth is None else PRODUCT


def batch_queries(stream: Iterable[Ranking], size: int) -> Iterator[list[Query]]:
    """The queries of rankings, lazily, ``size`` at a time."""
    queries = (ranking.query for ranking in stream)
    return iter(lambda: list(itertools.islice(queries, size)), [])


def rank_in_threads(
    batches: Iterable[T], rank: Callable[[T], Iterable[Ranking]], threads: int
) -> Iterator[Ranking]:
    """The rankings of batches in their order, lazily; with several ``threads`` each ranks one at a time."""
    if threads == 1:
        yield from itertools.chain.from_iterable(map(rank, batches))
        return
    running: deque[Future[Iterable[Ranking]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            running.append(pool.submit(rank, batch))
            if len(running) > threads:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
