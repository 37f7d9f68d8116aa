"""The first stage of "more like this": its queries are docnos, it finds documents with the same terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from telerank.columns.filters import Filter
from telerank.expressions import call_text
from telerank.feedback.methods import Bo1
from telerank.feedback.words import WordFeedback
from telerank.sparse.index import IndexDocs, SparseIndex
from telerank.sparse.similarities.base import Similarity
from telerank.stage import Retriever
from telerank.types import Explanation, Phrase, Query, Ranking

# The name of the stage in pipelines.
LIKE = "like"
TERMS = 25  # of a document that are searched


@dataclass(frozen=True, repr=False)
class Like(Retriever):
    """Ranks the documents that have the most informative terms of the document whose docno is the query.

    Its ``fb_terms`` terms with the highest Bo1 (:class:`~telerank.feedback.methods.Bo1`) are searched under
    ``model``; None: BM25. The document itself is not in the ranking; if there is none of that docno, the
    ranking is empty; as there is none of a document that does not pass the filter ``visible``.
    """

    index: SparseIndex
    fb_terms: int = TERMS
    model: Similarity | None = None
    depth: int | None = None
    batch: int = field(default=16, compare=False)
    threads: int = field(default=1, compare=False)
    visible: Filter | None = None
    role = "words"

    def rank_batch(self, queries: list[Query]) -> list[Ranking]:
        depth = None if self.depth is None else self.depth + 1
        rankings = replace(self._feedback, depth=depth).rank_again([self._fed(query) for query in queries])
        return [self._without_itself(*pair) for pair in zip(queries, rankings, strict=True)]

    def explanation(self, query: Query, docno: str) -> Explanation:
        whole = self._feedback.explain_again(self._fed(query), docno)
        phrase = Phrase(
            "{model}, terms of {docno}", model=repr(self._feedback.similarity), docno=query.text.strip()
        )
        return replace(whole, what=phrase)

    @property
    def docs(self) -> IndexDocs:
        """The documents of the index."""
        return self.index.docs

    @property
    def call(self) -> str:
        settings: dict[str, object] = {"fb_terms": self.fb_terms}
        return call_text(LIKE, **settings | ({} if self.model is None else {"model": self.model}))

    @property
    def sources(self) -> Mapping[str, object]:
        return {"index": self.index.identity}

    @property
    def _feedback(self) -> WordFeedback:
        return WordFeedback(Bo1(1, self.fb_terms), model=self.model, index=self.index)

    def _fed(self, query: Query) -> Ranking:
        """The document as the first of a query without terms."""
        docno, bare = query.text.strip(), Query(query.qid, "")
        docs = replace(self.index.docs, chosen=self.visible)
        return Ranking(bare, (docno,), np.ones(1)) if docno in docs else Ranking(bare)

    def _without_itself(self, query: Query, ranking: Ranking) -> Ranking:
        own = query.text.strip()
        kept = [rank for rank, docno in enumerate(ranking.docnos) if docno != own][: self.depth]
        return Ranking.presorted(query, tuple(ranking.docnos[rank] for rank in kept), ranking.scores[kept])
