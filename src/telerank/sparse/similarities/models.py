"""BM25, language models (the query's log-likelihood under a smoothed model), divergence from independence."""

# ruff: noqa: ARG002 — all similarities have one signature; not every formula needs every statistic

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from telerank.sparse.similarities.base import Count, Floats, Similarity, Statistics

INDEPENDENCE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "standardized": lambda excess, expected: excess / np.sqrt(expected),
    "saturated": lambda excess, expected: excess / expected,
    "chisquared": lambda excess, expected: excess * excess / expected,
}
"""The divergence, from the occurrences in excess of the expected ones and the expected ones."""


@dataclass(frozen=True, repr=False)
class BM25(Similarity):
    """idf · tf / (tf + k1 · (1 − b + b · length / avg)), idf = ln(1 + (N − df + ½) / (df + ½)).

    ``k1``, from 0 to 1000: how slowly further occurrences saturate; 0 counts presence only.
    ``b``, from 0 to 1: how much of the length is normalised away.

    Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), in the form of
    Lucene's ``BM25Similarity`` since version 8: without the constant factor k1 + 1, and with the 1 in the idf
    that keeps terms of more than half of the documents above 0.
    """

    name: ClassVar = "bm25"
    ranges: ClassVar = {"k1": (0, 1000), "b": (0, 1)}
    k1: float = 1.2
    b: float = 0.75

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        norm = self.k1 * (1 - self.b + self.b * length / collection.average_length)
        idf = np.log1p((collection.documents - df + 0.5) / (df + 0.5))
        return idf * (tf / (tf + norm))


@dataclass(frozen=True, repr=False)
class LMDirichlet(Similarity):
    """max(0, ln(1 + tf / (mu · p)) + ln(mu / (length + mu))), p = (cf + 1) / (T + 1).

    ``mu``, from 0.001 to 10^9 tokens: how many tokens of the collection are mixed into each document.

    Zhai and Lafferty, A Study of Smoothing Methods for Language Models Applied to Ad Hoc Information
    Retrieval (2001), in the form of Lucene's ``LMDirichletSimilarity``: a document without the term gets 0
    instead of the term's share of the length penalty, and negative values (of a frequent term in a long
    document) become 0.
    """

    name: ClassVar = "lm_dirichlet"
    ranges: ClassVar = {"mu": (1e-3, 1e9)}
    mu: float = 2000.0

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        gain = np.log1p(tf / (self.mu * collection.probability(cf)))
        return np.asarray(np.maximum(gain - np.log1p(length / self.mu), 0.0))


@dataclass(frozen=True, repr=False)
class LMJelinekMercer(Similarity):
    """ln(1 + (1 − lambda) · (tf / length) / (lambda · p)), p = (cf + 1) / (T + 1).

    ``lambda_`` (``lambda`` in the text form), from 10^-6 to 1: the share of the collection's model in the
    mixture; about 0.1 suits short queries, 0.7 long ones; at 1 every score is 0.

    Zhai and Lafferty (2001), in the form of Lucene's ``LMJelinekMercerSimilarity``.
    """

    name: ClassVar = "lm_jelinek_mercer"
    ranges: ClassVar = {"lambda_": (1e-6, 1)}
    lambda_: float = 0.1

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        seen = (1 - self.lambda_) * (tf / length)
        return np.asarray(np.log1p(seen / (self.lambda_ * collection.probability(cf))))


@dataclass(frozen=True, repr=False)
class DFI(Similarity):
    """log2(1 + divergence of tf from e), e = (cf + 1) · length / (T + 1); 0 where tf ≤ e.

    ``independence``, the divergence: (tf − e) / √e ``standardized``, (tf − e) / e ``saturated``,
    (tf − e)² / e ``chisquared``. Meant for texts that keep their stop words: common terms get low weights.

    Kocabaş, Dinçer and Karaoğlan, A Nonparametric Term Weighting Method for Information Retrieval Based on
    Measuring the Divergence from Independence (2014), in the form of Lucene's ``DFISimilarity``.
    """

    name: ClassVar = "dfi"
    words: ClassVar = {"independence": INDEPENDENCE}
    independence: str = "standardized"

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        expected = (cf + 1) * length / (collection.tokens + 1)
        excess = np.maximum(tf - expected, 0.0)
        divergence = INDEPENDENCE[self.independence](excess, expected)
        return np.asarray(np.log1p(divergence) / np.log(2.0))
