"""Divergence from randomness: a basic model, an after-effect and a normalisation of tf, freely combined."""

# ruff: noqa: ARG001, ARG002, ARG005 — all have one signature; not every formula needs every statistic

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log1p
from typing import ClassVar, TypeAlias

import numpy as np

from telerank.sparse.similarities.base import Count, Floats, Parameters, Similarity, Statistics

Line: TypeAlias = tuple[float | Floats, float | Floats]


class Normalization(Parameters, ABC):
    """``tfn``: the occurrences that a document of the standard length would have."""

    @abstractmethod
    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats: ...


@dataclass(frozen=True, repr=False)
class NoNormalization(Normalization):
    """tf."""

    name: ClassVar = "none"

    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats:
        return tf


@dataclass(frozen=True, repr=False)
class H1(Normalization):
    """tf · c · avg / length: occurrences are spread evenly (Lucene's ``NormalizationH1``); ``c`` to 1000."""

    name: ClassVar = "h1"
    ranges: ClassVar = {"c": (0, 1000)}
    c: float = 1.0

    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats:
        return tf * (self.c * collection.average_length / length)


@dataclass(frozen=True, repr=False)
class H2(Normalization):
    """tf · log2(1 + c · avg / length): density falls with length (``NormalizationH2``); ``c`` to 1000."""

    name: ClassVar = "h2"
    ranges: ClassVar = {"c": (0, 1000)}
    c: float = 1.0

    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats:
        return np.asarray(tf * np.log2(1 + self.c * collection.average_length / length))


@dataclass(frozen=True, repr=False)
class H3(Normalization):
    """mu · (tf + mu · p) / (length + mu), p = (cf + 1) / (T + 1): Dirichlet priors (``NormalizationH3``).

    ``mu`` to 10^6 tokens.
    """

    name: ClassVar = "h3"
    ranges: ClassVar = {"mu": (0, 1e6)}
    mu: float = 800.0

    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats:
        prior = self.mu * collection.probability(cf)
        return self.mu * ((tf + prior) / (length + self.mu))


@dataclass(frozen=True, repr=False)
class Z(Normalization):
    """tf · (avg / length)^z: Pareto–Zipf (``NormalizationZ``); ``z`` from 0.001 to 0.499."""

    name: ClassVar = "z"
    ranges: ClassVar = {"z": (0.001, 0.499)}
    z: float = 0.3

    def tfn(self, tf: Floats, length: Floats, cf: Count, collection: Statistics) -> Floats:
        # np.power: for a single number the operator ** may differ in the last bit
        return np.asarray(tf * np.power(collection.average_length / length, self.z))


def _g(df: Count, cf: Count, collection: Statistics) -> Line:
    odds = (cf + 1) / (collection.documents + cf + 1)  # Lucene's lambda: F / (N + F), F = cf + 1
    return np.log2(1 + odds), np.log2((1 + odds) / odds)


def _ine(df: Count, cf: Count, collection: Statistics) -> Line:
    documents = collection.documents
    absent = log1p(-1 / documents) if documents > 1 else -inf  # ln of (N − 1) / N
    expected = -documents * np.expm1(cf * absent)
    return 0.0, np.log2((documents + 1) / (expected + 0.5))


BASIC_MODELS: dict[str, Callable[[Count, Count, Statistics], Line]] = {
    "g": _g,
    "if": lambda df, cf, collection: (0.0, np.log2(1 + (collection.documents + 1) / (cf + 0.5))),
    "in": lambda df, cf, collection: (0.0, np.log2((collection.documents + 1) / (df + 0.5))),
    "ine": _ine,
}
"""The information of ``tfn`` occurrences in bits, which is linear: its value at 0 and its slope."""

AFTER_EFFECTS: dict[str, Callable[[Floats, Count, Count], Floats]] = {
    "b": lambda tfn, df, cf: (cf + 2) / (df + 1) / (1 + tfn),
    "l": lambda tfn, df, cf: 1 / (1 + tfn),
    "none": lambda tfn, df, cf: np.ones_like(tfn),
}
"""The share of the information that is gain; it falls with the number of expected occurrences."""


@dataclass(frozen=True, repr=False)
class DFR(Similarity):
    """information(tfn) · after-effect(tfn), where tfn is tf normalised by the document's length.

    ``basic_model``, information in bits (logarithms of base 2):

    - ``g``, Bose–Einstein as geometric: log(1 + x) + tfn · log((1 + x) / x), x = (cf + 1) / (N + cf + 1)
    - ``if``, inverse term frequency: tfn · log(1 + (N + 1) / (cf + ½))
    - ``in``, inverse document frequency: tfn · log((N + 1) / (df + ½))
    - ``ine``, inverse expected document frequency: tfn · log((N + 1) / (n + ½)),
      n = N · (1 − ((N − 1) / N)^cf)

    ``after_effect``: ``l`` Laplace 1 / (1 + tfn); ``b`` Bernoulli (cf + 2) / ((df + 1) · (1 + tfn));
    ``none`` 1.
    ``normalization``: :class:`H1`, :class:`H2`, :class:`H3`, :class:`Z` or :class:`NoNormalization`.

    Amati and van Rijsbergen, Probabilistic Models of Information Retrieval Based on Measuring the Divergence
    from Randomness (2002), in the form of Lucene 8's ``DFRSimilarity``, which has dropped ``none`` as an
    after-effect (its scores grow with tf without bound); here it is the basic model alone, as in Lucene 7.
    """

    name: ClassVar = "dfr"
    words: ClassVar = {"basic_model": BASIC_MODELS, "after_effect": AFTER_EFFECTS}
    basic_model: str = "in"
    after_effect: str = "l"
    normalization: Normalization = H2()

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        tfn = self.normalization.tfn(tf, length, cf, collection)
        at_zero, slope = BASIC_MODELS[self.basic_model](df, cf, collection)
        return np.asarray((at_zero + slope * tfn) * AFTER_EFFECTS[self.after_effect](tfn, df, cf))
