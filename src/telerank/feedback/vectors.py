"""The stage that searches vectors again, with a query's vector moved to those that were found first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from telerank.dense.kinds import Floats
from telerank.dense.retriever import DenseRetriever
from telerank.dense.vectors import Encoded
from telerank.errors import CollectionError
from telerank.feedback.methods import Rocchio
from telerank.feedback.stage import Feedback
from telerank.stage import Stage, walk_stages
from telerank.types import Docs, Explanation, Phrase, Ranking


@dataclass(frozen=True, repr=False)
class VectorFeedback(Feedback):
    """Ranks by inner products with ``alpha`` · q + ``beta`` · the mean of the vectors that are fed back.

    ``retriever`` is the search of vectors before it. Documents that are fed back without having a vector do
    not count in the mean; if none has one, the query's vector is searched times ``alpha``.
    """

    method: Rocchio
    retriever: DenseRetriever | None = field(default=None, compare=False)
    role = "dense"

    def rank_again(self, rankings: list[Ranking]) -> Iterable[Ranking]:
        retriever = self._search
        queries = [ranking.query for ranking in rankings]
        own = retriever.encoder.encode_queries([query.text for query in queries])
        moved = np.stack(
            [self._move(vector, ranking)[0] for vector, ranking in zip(own.vectors, rankings, strict=True)]
        )
        return retriever.rank_encoded(queries, Encoded(moved, own.fingerprint))

    def explain_again(self, ranking: Ranking, docno: str) -> Explanation:
        """The inner products with the query's vector and with that of each document that is fed back."""
        retriever, method = self._search, self.method
        row = np.array([retriever.vectors.docnos.row(docno)], np.int64)
        [own] = retriever.vectors.require(retriever.encoder.encode_queries([ranking.query.text]))
        moved, fed = self._move(own, ranking)
        [score] = retriever.vectors.score_rows(row, moved).tolist()
        [product] = retriever.vectors.score_rows(row, own).tolist()
        parts = [
            Explanation(
                method.alpha * product, Phrase("{weight:g} times the query's vector", weight=method.alpha)
            )
        ]
        for name, vector in fed.items():
            [product] = retriever.vectors.score_rows(row, vector).tolist()
            what = "{weight:g} times the vector of {docno}"
            weight = method.beta / len(fed)
            parts.append(Explanation(weight * product, Phrase(what, weight=weight, docno=name)))
        parts.append(Explanation(score - sum(part.value for part in parts), "rounding to float32"))
        what = "inner product of {n} dimensions, by {model}, with the sum of"
        model = retriever.name or retriever.encoder.name
        return Explanation(score, Phrase(what, n=retriever.vectors.dimension, model=model), tuple(parts))

    def following(self, first: Stage) -> VectorFeedback:
        searches = [part for part in walk_stages(first) if isinstance(part, DenseRetriever | VectorFeedback)]
        last = searches[-1] if searches else None
        return replace(self, retriever=last.retriever if isinstance(last, VectorFeedback) else last)

    @property
    def docs(self) -> Docs | None:
        """The documents that it finds."""
        return None if self.retriever is None else self.retriever.docs

    @property
    def sources(self) -> Mapping[str, object]:
        return {} if self.retriever is None else self.retriever.sources

    @property
    def _search(self) -> DenseRetriever:
        if self.retriever is None:
            raise CollectionError(f"{self.method.name}: no stage before it searches vectors")
        return replace(self.retriever, depth=self.depth, threads=self.threads)

    def _move(self, query: Floats, ranking: Ranking) -> tuple[Floats, dict[str, Floats]]:
        """The vector that is searched, and those that are fed back, by docno."""
        vectors, rows = self._search.vectors, {}
        for docno in ranking.docnos[: self.method.fb_docs]:
            with suppress(KeyError):
                rows[docno] = vectors.docnos.row(docno)
        fed = dict(zip(rows, vectors.take(np.array(list(rows.values()), np.int64)), strict=True))
        mean = np.mean([*fed.values()], axis=0, dtype=np.float64) if fed else np.zeros(len(query))
        moved = self.method.alpha * query.astype(np.float64) + self.method.beta * mean
        return moved.astype(np.float32), fed
