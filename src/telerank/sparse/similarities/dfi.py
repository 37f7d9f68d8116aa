"""Divergence from independence."""

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
