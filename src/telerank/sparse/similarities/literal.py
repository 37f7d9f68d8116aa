"""The vector space model, and two equations of the Piaf report as they are printed.

Lucene's forms of the equations, which the report measured, are in
:mod:`telerank.sparse.similarities.families`.
"""

# ruff: noqa: ARG002 — all have one signature; not every formula needs every statistic
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from telerank.sparse.similarities.base import (
    AbsenceSimilarity,
    Count,
    Floats,
    Similarity,
    Statistics,
    VectorSimilarity,
)

# What the occurrences of a term in a document count.
OCCURRENCES: dict[str, Callable[[Floats], Floats]] = {
    "raw": lambda tf: tf,
    "log": lambda tf: np.asarray(1 + np.log(tf)),
    "sqrt": lambda tf: np.asarray(np.sqrt(tf)),
}
# The inverse document frequency, from N and df.
INVERSE: dict[str, Callable[[int, Count], float | Floats]] = {
    "log": lambda documents, df: np.log(documents / np.asarray(df, np.float64)),
    "smooth": lambda documents, df: 1 + np.log((documents + 1) / (np.asarray(df, np.float64) + 1)),
}
NORMS = ("cosine", "length", "none")


@dataclass(frozen=True, repr=False)
class TFIDF(VectorSimilarity):
    """The vector space model: w(tf) · idf² / norm, the product of the query's and the document's component.

    ``tf``, what occurrences count in a document: ``log`` 1 + ln tf, ``sqrt`` √tf, ``raw`` tf. In a query each
    counts once.
    ``idf``: ``log`` ln(N / df), 0 for a term of all documents; ``smooth`` 1 + ln((N + 1) / (df + 1)).
    ``norm``: ``cosine``, the length of the document's vector, √ Σ (w(tf) · idf)² over all its terms;
    ``length``, √length; ``none``, 1.

    With ``cosine`` the order is that of the cosine of the two vectors: the length of the query's, which all
    documents share, is left out. Salton, Wong and Yang, A Vector Space Model for Automatic Indexing (1975).
    ``tfidf(tf=sqrt, idf=smooth, norm=length)`` is Lucene's ``ClassicSimilarity`` since version 6.
    """

    name: ClassVar = "tfidf"
    words: ClassVar = {"tf": OCCURRENCES, "idf": INVERSE, "norm": NORMS}
    tf: str = "log"
    idf: str = "log"
    norm: str = "cosine"

    @property
    def is_cosine(self) -> bool:
        return self.norm == "cosine"

    def weight(self, tf: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return np.asarray(OCCURRENCES[self.tf](tf) * INVERSE[self.idf](collection.documents, df))

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        product = self.weight(tf, df, cf, collection) * INVERSE[self.idf](collection.documents, df)
        return np.asarray(product / np.sqrt(length) if self.norm == "length" else product)


@dataclass(frozen=True, repr=False)
class BM25Printed(Similarity):
    """idf · tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / avg)), idf = (N − df + ½) / (df + ½) + 1.

    Equation 1 of the Piaf report as it is printed: the idf has no logarithm, so that rare terms decide nearly
    alone. The denominator's "k-1" is read as k1. Parameters are those of ``bm25``.
    """

    name: ClassVar = "bm25_printed"
    ranges: ClassVar = {"k1": (0, 1000), "b": (0, 1)}
    k1: float = 1.2
    b: float = 0.75

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        norm = self.k1 * (1 - self.b + self.b * length / collection.average_length)
        idf = (collection.documents - df + 0.5) / (df + 0.5) + 1
        return idf * (tf * (self.k1 + 1) / (tf + norm))


@dataclass(frozen=True, repr=False)
class LMDirichletPrinted(AbsenceSimilarity):
    """ln((tf + mu · p) / (mu + length)), p = cf / T, for each query term: tf is 0 if a document lacks it.

    Equation 2 of the Piaf report as it is printed: absent terms count, so that long documents pay for each
    term of the query, and scores are negative. Documents that hold no term of the query are not ranked, and
    terms that the collection lacks, whose logarithm is infinite for all documents, are left out. ``mu`` is
    that of ``lm_dirichlet``.
    """

    name: ClassVar = "lm_dirichlet_printed"
    ranges: ClassVar = {"mu": (1e-3, 1e9)}
    mu: float = 2000.0

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return np.asarray(np.log1p(tf / self._prior(cf, collection)))

    def absence(self, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return np.asarray(np.log(self._prior(cf, collection)) - np.log(self.mu + length))

    def _prior(self, cf: Count, collection: Statistics) -> float | Floats:
        return self.mu * (cf / collection.tokens)
