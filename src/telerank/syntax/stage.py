"""The stage that reads queries in the simple syntax, around the stage that ranks their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from telerank.columns.filters import Filter
from telerank.errors import CollectionError
from telerank.expressions import call_text, depth_text
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.stage import CALL, PRODUCT, Stage, StageAround, check_depth
from telerank.syntax.reading import ReadQuery, read_typed
from telerank.types import Docs, Explanation, Query, Ranking

FUNCTION = "simple"
"""The name of the stage in pipelines."""


@dataclass(frozen=True, repr=False)
class SimpleSyntax(StageAround):
    """Ranks the words of each query by a stage, among the documents that fulfil the query's conditions.

    Queries are read as :mod:`telerank.syntax.parser` says. One without conditions is ranked by the stage as
    it is. One of conditions alone lists the documents that fulfil them. ``index`` has the documents; None:
    that of the stages. Only documents ``within`` a filter are looked at.

    Raises
    ------
    CollectionError
        If there is no index with words when the first query comes.
    """

    index: SparseIndex | None = None
    depth: int | None = None
    within: Filter | None = None

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_depth(self.depth)

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in stream:
            read = self.read(ranking.query)
            given = replace(ranking, query=replace(ranking.query, text=read.words))
            [ranked] = self._restrict(read)([given])
            yield Ranking.presorted(ranking.query, ranked.docnos, ranked.scores)

    def read(self, query: Query) -> ReadQuery:
        """The query as it is read."""
        if self.index is None:
            raise CollectionError(f"{self.text} needs the words of an index, and there is none here")
        return read_typed(self.index, query.text, self.within)

    def _restrict(self, read: ReadQuery) -> Stage:
        stage = read.restrict(self.stage)
        return stage if self.depth is None else stage % self.depth

    def explanation(self, query: Query, docno: str) -> Explanation:
        read = self.read(query)
        inner = self._restrict(read).explanation(replace(query, text=read.words), docno)
        return read.explain(inner, docno)

    def limit(self, k: int) -> SimpleSyntax:
        return replace(self, depth=k if self.depth is None else min(self.depth, k))

    def filtered(self, chosen: Filter, *, fed: bool = False) -> Stage:
        return replace(self, stage=self.stage.filtered(chosen, fed=fed), within=chosen.both(self.within))

    def with_docs(self, docs: Docs) -> SimpleSyntax:
        return replace(self, index=docs.index) if self.index is None and isinstance(docs, IndexDocs) else self

    @property
    def docs(self) -> IndexDocs | None:
        """The documents that it finds."""
        return None if self.index is None else self.index.docs

    @property
    def text(self) -> str:
        return depth_text(call_text(FUNCTION, self.stage.text), self.depth)

    @property
    def binding(self) -> int:
        return CALL if self.depth is None else PRODUCT
