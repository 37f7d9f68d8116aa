"""Language models: the log-likelihood of the query under the document's smoothed model."""

# ruff: noqa: ARG002 — all similarities have one signature; not every formula needs every statistic

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from telerank.sparse.similarities.base import Count, Floats, Similarity, Statistics


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
        gain = np.log1p(tf / (self.mu * _probability(cf, collection)))
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
        return np.asarray(np.log1p(seen / (self.lambda_ * _probability(cf, collection))))


def _probability(cf: Count, collection: Statistics) -> float | Floats:
    """Lucene's ``DefaultCollectionModel``: never 0, never above 1."""
    return (cf + 1) / (collection.tokens + 1)
