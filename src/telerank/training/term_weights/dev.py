"""A ranking measure of weights of words, searched in memory by their sums."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from telerank.evaluation.measures import measure
from telerank.models.encoders.word_weights import WordWeigher
from telerank.text import Analyzer
from telerank.text.analyzer import locate_terms
from telerank.training.encoders.dev import DevSet
from telerank.types import Progress, Query, Ranking

_AT_ONCE = 512  # documents


def measure_impacts(dev_set: DevSet, weigher: WordWeigher, analyzer: Analyzer, progress: Progress) -> float:
    """The mean of the set's measure over its queries, searching all its documents."""
    texts, vectors = list(dev_set.documents.values()), list[Mapping[str, float]]()
    for first in range(0, len(texts), _AT_ONCE):
        part = texts[first : first + _AT_ONCE]
        weighed = weigher.weigh(part, [locate_terms(analyzer, text) for text in part], scaled=False)
        vectors += [own.weights for own in weighed]
        progress("weighing", len(vectors), len(texts))
    once = weigher.settings.queries == "ones"
    queries = {query: Counter(analyzer.query(query.text)) for query in dev_set.queries}
    weights = {query: Counter(set(terms)) if once else terms for query, terms in queries.items()}
    rankings = rank_impacts(weights, tuple(dev_set.documents), vectors)
    return measure(rankings, dev_set.qrels, dev_set.measure).mean[dev_set.measure]


def rank_impacts(
    queries: Mapping[Query, Mapping[str, float]],
    docnos: Sequence[str],
    vectors: Sequence[Mapping[str, float]],
) -> Iterator[Ranking]:
    """The documents that hold a term of a query, by the sum of query weight times document weight."""
    rows, weights = defaultdict[str, list[int]](list), defaultdict[str, list[float]](list)
    for row, vector in enumerate(vectors):
        for term, weight in vector.items():
            rows[term].append(row)
            weights[term].append(weight)
    for query, terms in queries.items():
        scores = np.zeros(len(docnos))
        for term, times in terms.items():
            if term in rows:
                scores[rows[term]] += times * np.array(weights[term])
        best = np.flatnonzero(scores)
        yield Ranking.ranked(
            query, [docnos[row] for row in best.tolist()], scores[best].astype(np.float32)
        ).cut(1000)
