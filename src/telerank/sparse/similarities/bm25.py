"""BM25."""

# ruff: noqa: ARG002 — all similarities have one signature; not every formula needs every statistic

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from telerank.sparse.similarities.base import Count, Floats, Similarity, Statistics


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
