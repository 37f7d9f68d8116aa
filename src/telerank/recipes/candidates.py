"""Retrievers as re-rankers: candidates scored as a retriever scores them, be they among its best or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from telerank.dense.retriever import DenseRetriever
from telerank.evaluate.reranking import Reranker
from telerank.stage import Stage
from telerank.types import Ranking


def scoring(retriever: Stage) -> Reranker:
    """The re-ranker that gives candidates the retriever's scores.

    A dense retriever's vectors of the candidates are looked up. Any other retriever answers all its depth,
    which is for collections of thousands of documents; a candidate that it does not find gets no score.
    """

    def rerank(stream: Iterable[Ranking]) -> Iterator[Ranking]:
        for asked in stream:
            if isinstance(retriever, DenseRetriever):
                scores = _by_vectors(retriever, asked)
            else:
                scores = dict(retriever.search(asked.query))
            docnos = [docno for docno in asked.docnos if docno in scores]
            yield Ranking.ranked(asked.query, docnos, [scores[docno] for docno in docnos])

    return rerank


def _by_vectors(retriever: DenseRetriever, asked: Ranking) -> dict[str, float]:
    vectors = retriever.vectors
    rows = {vectors.docnos.row(docno): docno for docno in asked.docnos}
    ascending = np.array(sorted(rows), np.int64)
    found = vectors.scores(ascending, retriever.encoder.queries([asked.query.text]).vectors[0])
    return {rows[row]: score for row, score in zip(ascending.tolist(), found.tolist(), strict=True)}
