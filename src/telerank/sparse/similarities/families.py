"""The similarities: BM25, language models, divergence from randomness, divergence from independence.

A language model's score is the query's log-likelihood under it. Divergence from randomness combines a basic
model, an after-effect and a normalisation of tf freely. Then their text form, and the settings of each that
tuning tries; texts are ``bm25(k1=0.9, b=0.4)``, ``dfr(normalization=h2(c=7))``, ``inl2``.
"""

# ruff: noqa: ARG001, ARG002, ARG005 — all have one signature; not every formula needs every statistic
from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, starmap
from math import inf, log1p
from typing import Any, ClassVar, TypeAlias

import numpy as np

from telerank.errors import ModelError, known_names
from telerank.expressions import (
    Call,
    Expression,
    as_call,
    as_name,
    as_number,
    bind,
    parse_expression,
    wrong,
)
from telerank.sparse.similarities.base import Count, Floats, Parameters, Similarity, Statistics
from telerank.sparse.similarities.fields import (
    BM25F,
    OVER,
    InField,
    OverWeights,
    make_field_grid,
    over_what,
    parse_bm25f,
)
from telerank.sparse.similarities.literal import (
    INVERSE,
    NORMS,
    OCCURRENCES,
    TFIDF,
    BM25Printed,
    LMDirichletPrinted,
)

# The divergence, from the occurrences in excess of the expected ones and the expected ones.
INDEPENDENCE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "standardized": lambda excess, expected: excess / np.sqrt(expected),
    "saturated": lambda excess, expected: excess / expected,
    "chisquared": lambda excess, expected: excess * excess / expected,
}


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


# The information of ``tfn`` occurrences in bits, which is linear: its value at 0 and its slope.
BASIC_MODELS: dict[str, Callable[[Count, Count, Statistics], Line]] = {
    "g": _g,
    "if": lambda df, cf, collection: (0.0, np.log2(1 + (collection.documents + 1) / (cf + 0.5))),
    "in": lambda df, cf, collection: (0.0, np.log2((collection.documents + 1) / (df + 0.5))),
    "ine": _ine,
}

# The share of the information that is gain; it falls with the number of expected occurrences.
AFTER_EFFECTS: dict[str, Callable[[Floats, Count, Count], Floats]] = {
    "b": lambda tfn, df, cf: (cf + 2) / (df + 1) / (1 + tfn),
    "l": lambda tfn, df, cf: 1 / (1 + tfn),
    "none": lambda tfn, df, cf: np.ones_like(tfn),
}


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


# The families by name, and the usual short names of the language models.
MODELS: Mapping[str, type[Similarity]] = {
    **{
        model.name: model
        for model in (
            BM25,
            BM25F,
            LMDirichlet,
            LMJelinekMercer,
            DFR,
            DFI,
            TFIDF,
            BM25Printed,
            LMDirichletPrinted,
        )
    },
    "lmd": LMDirichlet,
    "ql": LMDirichlet,
    "qld": LMDirichlet,
    "lmjm": LMJelinekMercer,
}
NORMALIZATIONS: Mapping[str, type[Normalization]] = {
    kind.name: kind for kind in (H1, H2, H3, Z, NoNormalization)
}
# The literature's names, such as ``inl2``; their parameters are the normalisation's: ``inl2(c=7)``.
SHORT_DFR = {
    f"{basic}{after}{short}": (basic, after, normalization)
    for basic, after, (short, normalization) in product(
        BASIC_MODELS, ("l", "b"), {"1": "h1", "2": "h2", "3": "h3", "z": "z"}.items()
    )
}
_NORMALIZATIONS: tuple[Normalization, ...] = (
    *(H1(), H2(0.5), H2(1), H2(2), H2(5)),
    *(H3(), Z(), NoNormalization()),
)
_K1, _B = (0.3, 0.6, 0.9, 1.2, 1.5, 2, 3, 4), (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1)
_K1_OF_WEIGHTS = (0.9, 2, 4, 8, 16, 32, 64, 128)  # of weights up to about 100
_MU = (10, 25, 50, 100, 200, 300, 500, 700, 1000, 1500, 2000, 2500, 3000, 4000, 5000)
_LAMBDA = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_GRIDS: dict[type[Similarity], tuple[Similarity, ...]] = {
    BM25: tuple(starmap(BM25, product(_K1, _B))),
    LMDirichlet: tuple(map(LMDirichlet, _MU)),
    LMJelinekMercer: tuple(map(LMJelinekMercer, _LAMBDA)),
    # without an after-effect only with H2: Lucene 8 has dropped it
    DFR: (
        *(DFR(*parts) for parts in product(BASIC_MODELS, ("l", "b"), _NORMALIZATIONS)),
        *(DFR(basic, "none", H2(1)) for basic in BASIC_MODELS),
    ),
    DFI: tuple(map(DFI, INDEPENDENCE)),
    TFIDF: tuple(starmap(TFIDF, product(OCCURRENCES, INVERSE, NORMS))),
    BM25Printed: tuple(starmap(BM25Printed, product(_K1, _B))),
    LMDirichletPrinted: tuple(map(LMDirichletPrinted, _MU)),
}

_BM25_OF_WEIGHTS = tuple(starmap(BM25, product(_K1_OF_WEIGHTS, _B)))
_FIELD = "field"


def parse_similarity(text: str) -> Similarity:
    """The similarity that a text describes; parameters that it leaves out have their defaults.

    Raises ModelError if the text describes none.
    """
    return build_similarity(parse_expression(text), text)


def is_similarity(name: str) -> bool:
    """Whether the name is that of a family or of a DFR model such as ``inl2``."""
    return name in MODELS or name in SHORT_DFR


def build_similarity(tree: Expression, text: str) -> Similarity:
    """The similarity of a tree that was parsed from ``text``; raises as :func:`parse_similarity`."""
    call = as_call(tree, text)
    if call.name == BM25F.name:
        return parse_bm25f(call, text)
    chosen = dict[str, str]()
    for key, value in call.arguments:
        if key in chosen:
            raise wrong(text, call.at, f"{call.name}: {key} is given twice")
        if key in (_FIELD, OVER):
            chosen[key] = as_name(value, text)
    call = replace(call, arguments=tuple(pair for pair in call.arguments if pair[0] not in chosen))
    similarity: Similarity
    if call.name in SHORT_DFR:
        basic, after, normalization = SHORT_DFR[call.name]
        own = _build(Call(normalization, call.arguments, call.at), NORMALIZATIONS, text)
        similarity = DFR(basic, after, own)
    else:
        similarity = _build(call, MODELS, text)
    try:
        return over_what(similarity, chosen.get(_FIELD), chosen.get(OVER))
    except ModelError as error:
        raise wrong(text, call.at, str(error)) from error


def _build(call: Call, known: Mapping[str, type[Any]], text: str) -> Any:
    if call.name not in known:
        names = [*known, *(SHORT_DFR if known is MODELS else ())]
        raise wrong(text, call.at, f"unknown model {call.name!r}; {known_names(names, call.name)}")
    cls = known[call.name]
    fields = {field.name.rstrip("_"): field for field in dataclasses.fields(cls)}
    values = {
        fields[name].name: _value(fields[name].default, value, text)
        for name, value in bind(call, fields, text).items()
    }
    try:
        return cls(**values)
    except ModelError as error:
        raise wrong(text, call.at, str(error)) from error


def _value(default: object, tree: Expression, text: str) -> object:
    """The argument as the type that the parameter's default has."""
    if isinstance(default, Normalization):
        return _build(as_call(tree, text), NORMALIZATIONS, text)
    return as_name(tree, text) if isinstance(default, str) else as_number(tree, text)


def make_grid(model: Similarity, fields: Sequence[str] = ()) -> tuple[Similarity, ...]:
    """The settings of a similarity's family in the ranges of the literature, at most 80.

    ``fields`` are those of the index, which BM25F reads if it names none.
    """
    if isinstance(model, BM25F):
        return make_field_grid(model, fields)
    if isinstance(model, InField):
        return tuple(InField(each, model.field) for each in make_grid(model.model))
    if isinstance(model, OverWeights):
        grid = _BM25_OF_WEIGHTS if isinstance(model.model, BM25) else make_grid(model.model)
        return tuple(map(OverWeights, grid))
    return _GRIDS[type(model)]
