"""The candidate lists that come with a collection, as a stage that begins a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from telerank.expressions import call_text, quote
from telerank.stage import Stage
from telerank.types import Explanation, Phrase, Query, Ranking


@dataclass(frozen=True, repr=False)
class CandidatePool(Stage):
    """The lists ``name`` of a collection's ``split``, by qid; a query without a list has no documents.

    They are read into memory when the first query comes.
    """

    collection: str
    split: str
    name: str
    streams: tuple[Callable[[], Iterator[Ranking]], ...]

    def __call__(self, stream: Iterable[Ranking]) -> Iterator[Ranking]:
        return (self._find(bare.query) for bare in stream)

    def explanation(self, query: Query, docno: str) -> Explanation:
        return Explanation(
            dict(self._find(query))[docno], Phrase("the score in {file}", file=f"{self.split}/{self.name}")
        )

    @property
    def sources(self) -> Mapping[str, object]:
        return {self.text: {"collection": self.collection, "split": self.split}}

    @property
    def text(self) -> str:
        return call_text("pool", quote(self.name))

    @cached_property
    def _lists(self) -> Mapping[str, Ranking]:
        return {ranking.query.qid: ranking for read in self.streams for ranking in read()}

    def _find(self, query: Query) -> Ranking:
        known = self._lists.get(query.qid)
        return Ranking(query) if known is None else Ranking.presorted(query, known.docnos, known.scores)
