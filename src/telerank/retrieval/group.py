"""Hits of one file are grouped: each file stands once, with its best passage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge

from telerank.errors import ArgumentError
from telerank.expressions import call_text, depth_text
from telerank.stage import CHAIN, Retriever, Stage, batch_queries, check_depth, operand_text
from telerank.types import Explanation, Phrase, Query, Ranking, whole_docno

Column: TypeAlias = Literal["file"]
MOST_FURTHER = 10  # further passages of a file that are named; more are counted
_LEAST = 1000  # documents that are retrieved, so that a file's passages among them can be counted
_DEEPER = 4  # a ranking that had too few groups is made so many times as long
# The docnos of each file's passages, by the docno of the file; files and passages are best first.
Passages: TypeAlias = Mapping[str, tuple[str, ...]]
# Whether a ranking has what is looked for: its groups, and all documents to a depth.
Suffices: TypeAlias = Callable[[Ranking], bool]


def group(by: Column = "file", depth: Annotated[int | None, Ge(1)] = None) -> Stage:
    """The stage that keeps the best passage of each file.

    >>> index.bm25() >> tr.group("file") % 10

    Behind a first stage it retrieves deeper until ten files are found, or there are no more documents, or
    ``depth`` documents were retrieved.
    """
    return FileGroups(by, depth=depth)


@dataclass(frozen=True)
class Grouping:
    """The ``passages`` of each file among the so many first ``documents`` of a ranking.

    ``total`` is the number of files; None if there may be further documents, which were not grouped.
    """

    passages: Passages
    documents: int
    total: int | None

    @property
    def remark(self) -> str:
        """What was not grouped; empty if there is nothing."""
        first = f"the first {self.documents:,} documents are grouped"
        return f"{first}; those behind them are not counted" if self.total is None else ""


@dataclass(frozen=True, repr=False)
class FileGroups(Stage):
    """Keeps the best passage of each file, and ``k`` files; what is no passage is a file of its own.

    ``first`` makes what is grouped; without it, it is what the stage is given. Of each ranking the first
    ``depth`` documents are grouped; None: all, or of a first stage as many as ``k`` files need.
    """

    by: Column = "file"
    k: int | None = None
    first: Stage | None = None
    depth: int | None = None
    batch: int = field(default=16, compare=False)
    reorders = True

    def __post_init__(self) -> None:
        for number in (self.k, self.depth):
            if number is not None:
                check_depth(number)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        if self.first is None:
            return map(self._group, stream)
        if self.k is None or not isinstance(self.first, Retriever):  # what is not retrieved is there anyhow
            return map(self._group, self._within(self.first)(stream))
        return map(self._group, self._retrieve(self.first, stream, self._has_enough))

    def search_groups(self, query: Query) -> tuple[Ranking, Grouping]:
        """The ranking of a query, and what was grouped: 1000 documents or more.

        Raises
        ------
        ArgumentError
            If nothing stands before the stage.
        """
        if self.first is None:
            raise ArgumentError(f"nothing stands before {self.text}: bm25 >> {self.text}")
        before = self._search(query, self._has_enough if self.k is not None else lambda _: False)
        return self._group(before), self.grouping(before, self.first)

    def grouping(self, ranking: Ranking, first: Stage | None) -> Grouping:
        """What is grouped of a ranking that a stage made for that."""
        passages = self._passages(ranking)
        grouped = len(ranking.docnos[: self.depth])
        # a first stage that gave as many as it was asked for may have more
        depths = takewhile(lambda depth: depth <= grouped, self._depths())
        is_full = isinstance(first, Retriever) and (grouped == first.depth or grouped in depths)
        is_cut = is_full or grouped < len(ranking)
        total = len(passages) if self.k is None else min(self.k, len(passages))
        return Grouping(passages, grouped, None if is_cut and total != self.k else total)

    def _passages(self, ranking: Ranking) -> Passages:
        """The passages of each file in a ranking that is grouped."""
        passages: dict[str, list[str]] = defaultdict(list)
        for docno in ranking.docnos[: self.depth]:
            passages[whole_docno(docno)].append(docno)
        return {file: tuple(docnos) for file, docnos in passages.items()}

    def limit(self, k: int) -> FileGroups:
        return replace(self, k=k if self.k is None else min(self.k, k))

    def within(self, depth: int) -> FileGroups:
        """The stage that groups at most ``depth`` documents, unless it has a depth of its own."""
        return self if self.depth is not None else replace(self, depth=check_depth(depth))

    def behind(self, first: Stage) -> FileGroups:
        return replace(self, first=first if self.first is None else first >> self.first)

    def split(self) -> tuple[Stage, ...]:
        """What is grouped, and the stage that groups it, which one after the other rank as this does."""
        return (self,) if self.first is None else (self._within(self.first), replace(self, first=None))

    def explanation(self, query: Query, docno: str) -> Explanation:
        if self.first is None:
            raise KeyError(docno)
        why = self.first.explanation(query, docno)
        file = whole_docno(docno)
        passages = self._passages(self._search(query, lambda ranking: docno in ranking.docnos)).get(file, ())
        if docno not in passages:  # it is beyond the depth
            return why
        best, *others = passages
        if docno != best:
            what = Phrase("{best} stands for the file {file}: its score is higher", best=best, file=file)
        elif others:
            what = Phrase("the best of {n} passages of {file} in the ranking", n=len(passages), file=file)
        else:
            what = Phrase("the only passage of {file} in the ranking", file=file)
        return Explanation(why.value, what, (why,))

    @property
    def role(self) -> str:
        return "groups" if self.first is None else self.first.role

    @property
    def text(self) -> str:
        settings = {} if self.depth is None else {"depth": self.depth}
        call = depth_text(call_text("group", self.by, **settings), self.k)
        return call if self.first is None else f"{operand_text(self.first, CHAIN)} >> {call}"

    @property
    def binding(self) -> int:
        return super().binding if self.first is None and self.k is None else CHAIN

    def _group(self, ranking: Ranking) -> Ranking:
        best: dict[str, int] = {}
        for rank, docno in enumerate(ranking.docnos[: self.depth]):
            if len(best) == self.k:
                break
            best.setdefault(whole_docno(docno), rank)
        ranks = list(best.values())
        docnos = tuple(ranking.docnos[rank] for rank in ranks)
        return Ranking.presorted(ranking.query, docnos, ranking.scores[ranks])

    def _within(self, first: Stage) -> Stage:
        """A first stage, retrieving no more than is grouped; another one as it is."""
        return first if self.depth is None or not isinstance(first, Retriever) else first.limit(self.depth)

    def _has_enough(self, ranking: Ranking) -> bool:
        return len(self._group(ranking)) == self.k

    def _search(self, query: Query, suffices: Suffices) -> Ranking:
        """What is grouped for a query; of a first stage, as much as ``suffices`` says."""
        if self.first is None:
            raise KeyError(query.qid)
        if not isinstance(self.first, Retriever):
            return self.first.search(query)
        return next(self._retrieve(self.first, iter([Ranking(query)]), suffices))

    def _retrieve(self, first: Retriever, stream: Iterable[Ranking], suffices: Suffices) -> Iterator[Ranking]:
        """The rankings of a first stage, retrieved deeper for the queries whose rankings do not suffice."""
        for queries in batch_queries(stream, self.batch):
            deep: dict[int, Ranking] = {}
            waiting, depths = list(enumerate(queries)), self._depths()
            while waiting:
                depth = next(depths)
                rankings = first.limit(depth).run(query for _, query in waiting)
                for (number, _), ranking in zip(waiting, rankings, strict=True):
                    if len(ranking) < depth or depth == self.depth or suffices(ranking):
                        deep[number] = ranking
                waiting = [pair for pair in waiting if pair[0] not in deep]
            yield from (deep[number] for number in range(len(queries)))

    def _depths(self) -> Iterator[int]:
        """The depths, one after the other, in which a first stage is searched."""
        depth = max(_LEAST, _DEEPER * (self.k or 1))
        while True:
            yield depth if self.depth is None else min(depth, self.depth)
            depth *= _DEEPER
