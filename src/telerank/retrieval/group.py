"""Hits of one file are grouped: each file stands once, with its best passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from telerank.expressions import call_text
from telerank.stage import CHAIN, Retriever, Stage, batch_queries, check_depth, depth_text, operand_text
from telerank.types import Explanation, Query, Ranking, whole_docno

Column: TypeAlias = Literal["file"]
_DEEPER = 4  # a list that had too few groups is made so many times as long


def group(by: Column = "file") -> Stage:
    """The stage that keeps the best passage of each file.

    >>> index.bm25() >> tr.group("file") % 10

    Behind a first stage it retrieves deeper until ten files are found, or there are no more documents.
    """
    return FileGroups(by)


@dataclass(frozen=True, repr=False)
class FileGroups(Stage):
    """Keeps the best passage of each file, and ``k`` files; what is no passage is a file of its own.

    ``first`` makes what is grouped; without it, it is what the stage is given.
    """

    by: Column = "file"
    k: int | None = None
    first: Stage | None = None
    batch: int = field(default=16, compare=False)

    def __post_init__(self) -> None:
        if self.k is not None:
            check_depth(self.k)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        if self.first is None:
            return map(self._group, stream)
        if self.k is None or not isinstance(self.first, Retriever):  # what is not retrieved is there anyhow
            return map(self._group, self.first(stream))
        return self._retrieve(self.first, self.k, stream)

    def limit(self, k: int) -> FileGroups:
        return replace(self, k=k if self.k is None else min(self.k, k))

    def behind(self, first: Stage) -> FileGroups:
        return replace(self, first=first if self.first is None else first >> self.first)

    def explanation(self, query: Query, docno: str) -> Explanation:
        if self.first is None:
            raise KeyError(docno)
        return self.first.explanation(query, docno)

    @property
    def role(self) -> str:
        return "other" if self.first is None else self.first.role

    @property
    def text(self) -> str:
        call = depth_text(call_text("group", self.by), self.k)
        return call if self.first is None else f"{operand_text(self.first, CHAIN)} >> {call}"

    @property
    def binding(self) -> int:
        return super().binding if self.first is None and self.k is None else CHAIN

    def _group(self, ranking: Ranking) -> Ranking:
        best: dict[str, int] = {}
        for rank, docno in enumerate(ranking.docnos):
            if len(best) == self.k:
                break
            best.setdefault(whole_docno(docno), rank)
        ranks = list(best.values())
        docnos = tuple(ranking.docnos[rank] for rank in ranks)
        return Ranking.presorted(ranking.query, docnos, ranking.scores[ranks])

    def _retrieve(self, first: Retriever, k: int, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        """The groups of a first stage, retrieved deeper for the queries that have too few."""
        for queries in batch_queries(stream, self.batch):
            groups: dict[int, Ranking] = {}
            waiting, depth = list(enumerate(queries)), _DEEPER * k
            while waiting:
                rankings = first.limit(depth).run(query for _, query in waiting)
                for (number, _), ranking in zip(waiting, rankings, strict=True):
                    grouped = self._group(ranking)
                    if len(grouped) == k or len(ranking) < depth:  # there are no more documents
                        groups[number] = grouped
                waiting, depth = [pair for pair in waiting if pair[0] not in groups], _DEEPER * depth
            yield from (groups[number] for number in range(len(queries)))
