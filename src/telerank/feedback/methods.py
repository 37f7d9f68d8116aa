"""The weights that feedback gives to terms: RM3, Bo1, Rocchio.

Notation: q the terms of the query, R the documents that are fed back, tf(t, d) occurrences of a term in one
of them, |d| its terms, N the documents of the collection, cf and df of a term as everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import hypot, log2
from typing import ClassVar, NamedTuple, TypeAlias

from telerank.sparse.similarities.base import Parameters

_WHOLE, _SHARE, _WEIGHT = (1, 2**31), (0, 1), (0, 1000)


class FedBack(NamedTuple):
    """A document that is fed back: its score in the first ranking, and how often it holds each term."""

    docno: str
    score: float
    counts: Mapping[str, int]


class Frequencies(NamedTuple):
    """How many documents hold a term, and how often they do."""

    df: int
    cf: int


class TermWeight(NamedTuple):
    """What a term weighs: a part that the query gives it, and a part from so many ``documents``."""

    query: float
    feedback: float
    documents: int

    @property
    def value(self) -> float:
        return self.query + self.feedback


Collection: TypeAlias = Callable[[str], Frequencies]
TermWeights: TypeAlias = dict[str, TermWeight]


@dataclass(frozen=True, repr=False)
class FeedbackMethod(Parameters, ABC):
    """A method, whose ``repr`` is its text in a pipeline.

    ``fb_docs`` are fed back, and ``fb_terms`` of their terms are added to the query. A term that more than
    the share ``max_df`` of all documents hold is not added.
    """

    ranges: ClassVar = {"fb_docs": _WHOLE, "fb_terms": _WHOLE}
    fb_docs: int = 10
    fb_terms: int = 10

    @abstractmethod
    def weigh(
        self, query: Mapping[str, int], fed: Sequence[FedBack], collection: Collection, size: int
    ) -> TermWeights:
        """The weights of the query's terms and of those that are added; ``size`` is N.

        Without documents, or if they hold no terms, only the terms of the query have weights.
        """


@dataclass(frozen=True, repr=False)
class RM3(FeedbackMethod):
    """w(t) = λ · qtf(t) / |q| + (1 − λ) · P(t | R), λ ``original_query_weight``.

    P(t | R) ∝ Σ over R of tf(t, d) / |d| · P(d), for the ``fb_terms`` most probable terms, whose sum is 1.
    P(d) is proportional to the score in the first ranking; if a score there is not above 0, all P(d) are
    equal.

    Lavrenko and Croft, Relevance-Based Language Models (2001); Abdul-Jaleel et al., UMass at TREC 2004:
    Novelty and HARD. Parameters and defaults are Anserini's, which also cuts each document to ``fb_terms``
    terms and leaves out terms with other characters than a to z and digits; this does neither.
    """

    name: ClassVar = "rm3"
    ranges: ClassVar = {**FeedbackMethod.ranges, "original_query_weight": _SHARE, "max_df": _SHARE}
    original_query_weight: float = 0.5
    max_df: float = 0.1

    def weigh(
        self, query: Mapping[str, int], fed: Sequence[FedBack], collection: Collection, size: int
    ) -> TermWeights:
        positive = all(doc.score > 0 for doc in fed)
        model: dict[str, float] = defaultdict(float)
        for doc in fed:
            length = sum(doc.counts.values())
            for term, tf in doc.counts.items():
                model[term] += tf / length * (doc.score if positive else 1.0)
        best = _largest(model, self.fb_terms, collection, self.max_df * size)
        total, terms = sum(best.values()), sum(query.values())
        share = self.original_query_weight if best else 1.0
        return _join(
            {term: share * tf / terms for term, tf in query.items()},
            {term: (1 - share) * value / total for term, value in best.items()},
            fed,
        )


@dataclass(frozen=True, repr=False)
class Bo1(FeedbackMethod):
    """w(t) = qtf(t) / max qtf + bo(t) / max bo.

    bo(t) = tf(t, R) · log2((1 + p) / p) + log2(1 + p), p = cf / N; tf(t, R) are the occurrences in all of R
    together; the ``fb_terms`` with the largest bo(t) are added. max bo is the limit of bo for cf → tf(t, R),
    of the term with the largest bo.

    Amati, Probability Models for Information Retrieval based on Divergence from Randomness (2003), as Terrier
    has it; its parameters and defaults are PyTerrier's. Terrier adds only terms of two or more documents;
    this does not ask for that.
    """

    name: ClassVar = "bo1"
    fb_docs: int = 3

    def weigh(
        self, query: Mapping[str, int], fed: Sequence[FedBack], collection: Collection, size: int
    ) -> TermWeights:
        occurrences = sum((Counter(doc.counts) for doc in fed), Counter[str]())
        values = {term: bo1_value(tf, collection(term).cf / size) for term, tf in occurrences.items()}
        best = _largest(values, self.fb_terms)
        top = next(iter(best), "")
        greatest = bo1_value(occurrences[top], occurrences[top] / size) if best else 1.0
        return _join(
            {term: tf / max(query.values()) for term, tf in query.items()},
            {term: value / greatest for term, value in best.items()},
            fed,
        )


def bo1_value(occurrences: int, mean: float) -> float:
    """The information of so many occurrences if a document has ``mean`` of them (Bose–Einstein)."""
    return occurrences * log2((1 + mean) / mean) + log2(1 + mean)


@dataclass(frozen=True, repr=False)
class Rocchio(FeedbackMethod):
    """w = ``alpha`` · q / ‖q‖ + ``beta`` · m / ‖m‖, m the mean of d / ‖d‖ over R.

    m is cut to its ``fb_terms`` largest; q and d are vectors of tf. Behind a search of vectors, ``alpha`` · q
    + ``beta`` · mean of d, of the encoder's vectors, is searched, and the parameters for terms are ignored.

    Rocchio, Relevance Feedback in Information Retrieval (1971), without documents that are not relevant;
    parameters and defaults are Anserini's. For vectors: Li et al., Pseudo Relevance Feedback with Deep
    Language Models and Dense Retrievers: Successes and Pitfalls (2023).
    """

    name: ClassVar = "rocchio"
    ranges: ClassVar = {**FeedbackMethod.ranges, "alpha": _WEIGHT, "beta": _WEIGHT, "max_df": _SHARE}
    alpha: float = 1.0
    beta: float = 0.75
    max_df: float = 0.1

    def weigh(
        self, query: Mapping[str, int], fed: Sequence[FedBack], collection: Collection, size: int
    ) -> TermWeights:
        mean: dict[str, float] = defaultdict(float)
        for doc in fed:
            length = hypot(*doc.counts.values())
            for term, tf in doc.counts.items():
                mean[term] += tf / length / len(fed)
        best = _largest(mean, self.fb_terms, collection, self.max_df * size)
        norm, length = hypot(*best.values()), hypot(*query.values())
        return _join(
            {term: self.alpha * tf / length for term, tf in query.items()},
            {term: self.beta * value / norm for term, value in best.items()},
            fed,
        )


def _largest(
    values: Mapping[str, float], count: int, collection: Collection | None = None, most_df: float = 0.0
) -> dict[str, float]:
    """The terms with the largest values, then first in order, without those of over ``most_df`` documents."""
    ordered = sorted((-value, term) for term, value in values.items())
    kept = (pair for pair in ordered if collection is None or collection(pair[1]).df <= most_df)
    return {term: -value for value, term in islice(kept, count)}


def _join(query: Mapping[str, float], feedback: Mapping[str, float], fed: Sequence[FedBack]) -> TermWeights:
    return {
        term: TermWeight(
            query.get(term, 0.0), feedback.get(term, 0.0), sum(term in doc.counts for doc in fed)
        )
        for term in {**query, **feedback}
    }


# The settings of each method that tuning tries, by its name.
_GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "rm3": {"fb_docs": (5, 10), "fb_terms": (10, 20), "original_query_weight": (0.5, 0.7, 0.9)},
    "bo1": {"fb_docs": (3, 5, 10), "fb_terms": (5, 10, 20)},
    "rocchio": {"fb_docs": (3, 10), "fb_terms": (10, 20), "beta": (0.25, 0.5, 0.75)},
}


def make_feedback_grid(name: str) -> list[FeedbackMethod]:
    """The settings of a method in the ranges of the literature, and its defaults; at most 13."""
    grid = _GRIDS[name]
    kind: Callable[..., FeedbackMethod] = METHODS[name]
    tried = [kind(**dict(zip(grid, values, strict=True))) for values in product(*grid.values())]
    return list(dict.fromkeys([*tried, kind()]))


METHODS: Mapping[str, type[FeedbackMethod]] = {kind.name: kind for kind in (RM3, Bo1, Rocchio)}
