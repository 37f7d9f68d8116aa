"""Stages within a filter, where the stage itself does not search within it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from telerank.columns.filters import Filter
from telerank.columns.kinds import open_filter
from telerank.errors import CollectionError
from telerank.expressions import quote
from telerank.stage.algebra import Stage
from telerank.stage.around import StageAround
from telerank.types import ColumnDocs, Docs, Explanation, Query, Ranking


@dataclass(frozen=True, repr=False)
class Where(StageAround):
    """Keeps the documents that pass a filter, of those that a stage is given, and of its rankings.

    ``docs`` has their columns. A document that is not there passes no filter.

    Raises
    ------
    CollectionError
        If there are no documents when the first ranking comes.
    FilterError
        If a column is unknown or of another kind.
    """

    chosen: Filter
    docs: Docs | None = field(default=None, compare=False, hash=False)

    def __post_init__(self) -> None:
        if isinstance(self.docs, ColumnDocs):
            self.chosen.bind(self.docs.kinds)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return map(self._keep, self.stage(map(self._keep, stream)))

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        return replace(self, chosen=chosen.both(self.chosen)) if not (fed and self.stage.reorders) else self

    def with_docs(self, docs: Docs) -> Stage:
        return replace(self, docs=docs) if self.docs is None else self

    def after(self, first: Stage) -> Stage:
        return replace(self, stage=self.stage.after(Where(first, self.chosen, self.docs)))

    def explanation(self, query: Query, docno: str) -> Explanation:
        if not self._passes(docno):
            raise KeyError(docno)
        return self.stage.explanation(query, docno)

    @property
    def text(self) -> str:
        return where_text(self.stage.text, self.chosen)

    def _keep(self, ranking: Ranking) -> Ranking:
        kept = [self._passes(docno) for docno in ranking.docnos]
        if all(kept):
            return ranking
        docnos = tuple(docno for docno, own in zip(ranking.docnos, kept, strict=True) if own)
        return Ranking.presorted(ranking.query, docnos, ranking.scores[kept])

    @cached_property
    def _passes(self) -> Callable[[str], bool]:
        if self.docs is None:
            raise CollectionError(
                f"{self.text}: no documents, whose columns the filter reads: stage.where(filter, index.docs)"
            )
        return open_filter(self.docs, self.chosen)


def where_text(text: str, chosen: Filter) -> str:
    """The text of a stage within a filter."""
    return f"where({text}, {quote(chosen.text)})"
