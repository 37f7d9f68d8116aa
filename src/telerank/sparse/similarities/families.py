"""The families of similarities: their text form, and the settings of each that tuning tries.

Texts are ``bm25(k1=0.9, b=0.4)``, ``dfr(normalization=h2(c=7))``, ``inl2``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import product, starmap
from typing import Any

from telerank.errors import ModelError
from telerank.expressions import (
    Call,
    Expression,
    as_call,
    as_name,
    as_number,
    bind,
    known_names,
    parse_expression,
    wrong,
)
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.dfr import BASIC_MODELS, DFR, H1, H2, H3, NoNormalization, Normalization, Z
from telerank.sparse.similarities.models import BM25, DFI, INDEPENDENCE, LMDirichlet, LMJelinekMercer

MODELS: Mapping[str, type[Similarity]] = {
    **{model.name: model for model in (BM25, LMDirichlet, LMJelinekMercer, DFR, DFI)},
    "lmd": LMDirichlet,
    "ql": LMDirichlet,
    "qld": LMDirichlet,
    "lmjm": LMJelinekMercer,
}
"""The families by name, and the usual short names of the language models."""
NORMALIZATIONS: Mapping[str, type[Normalization]] = {
    kind.name: kind for kind in (H1, H2, H3, Z, NoNormalization)
}
SHORT_DFR = {
    f"{basic}{after}{short}": (basic, after, normalization)
    for basic, after, (short, normalization) in product(
        BASIC_MODELS, ("l", "b"), {"1": "h1", "2": "h2", "3": "h3", "z": "z"}.items()
    )
}
"""The literature's names, such as ``inl2``; their parameters are the normalisation's: ``inl2(c=7)``."""
_NORMALIZATIONS: tuple[Normalization, ...] = (
    *(H1(), H2(0.5), H2(1), H2(2), H2(5)),
    *(H3(), Z(), NoNormalization()),
)
_K1, _B = (0.3, 0.6, 0.9, 1.2, 1.5, 2, 3, 4), (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1)
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
}


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
    if call.name in SHORT_DFR:
        basic, after, normalization = SHORT_DFR[call.name]
        return DFR(basic, after, _build(Call(normalization, call.arguments, call.at), NORMALIZATIONS, text))
    similarity: Similarity = _build(call, MODELS, text)
    return similarity


def _build(call: Call, known: Mapping[str, type[Any]], text: str) -> Any:
    if call.name not in known:
        also = ", and DFR models such as inl2" if known is MODELS else ""
        raise wrong(text, call.at, f"unknown model {call.name!r}; {known_names(known)}{also}")
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


def make_grid(model: Similarity) -> tuple[Similarity, ...]:
    """The settings of a similarity's family in the ranges of the literature, at most 80."""
    return _GRIDS[type(model)]
