"""The text form of models, read back: ``bm25(k1=0.9, b=0.4)``, ``dfr(normalization=h2(c=7))``, ``inl2``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from telerank.errors import ModelError
from telerank.sparse.similarities.base import Similarity
from telerank.sparse.similarities.bm25 import BM25
from telerank.sparse.similarities.dfi import DFI
from telerank.sparse.similarities.dfr import BASIC_MODELS, DFR, H1, H2, H3, NoNormalization, Normalization, Z
from telerank.sparse.similarities.lm import LMDirichlet, LMJelinekMercer

MODELS: dict[str, type[Similarity]] = {
    "bm25": BM25,
    "lm_dirichlet": LMDirichlet,
    "lm_jelinek_mercer": LMJelinekMercer,
    "dfr": DFR,
    "dfi": DFI,
}
NORMALIZATIONS: dict[str, type[Normalization]] = {
    "h1": H1,
    "h2": H2,
    "h3": H3,
    "z": Z,
    "none": NoNormalization,
}
ALIASES = {"lmd": "lm_dirichlet", "ql": "lm_dirichlet", "qld": "lm_dirichlet", "lmjm": "lm_jelinek_mercer"}
DFR_ALIASES = {
    f"{basic}{after}{short}": (basic, after, normalization)
    for basic, after, (short, normalization) in product(
        BASIC_MODELS, ("l", "b"), {"1": "h1", "2": "h2", "3": "h3", "z": "z"}.items()
    )
}
"""The literature's names, ``inl2`` for example; parameters go to the normalisation: ``inl2(c=7)``."""

_TOKEN = re.compile(r"\s*([\w.+-]+|[(),=]|\S|$)")


def parse_model(text: str) -> Similarity:
    """The model of a text form: names in any case, parameters in any order, absent ones at their defaults.

    Raises
    ------
    ModelError
        where the form is broken, or a name or a value is not known: it lists what is.
    """
    try:
        return _model(_Reader(text).whole())
    except RecursionError:
        raise ModelError(f"model {text[:40]!r}…: brackets within brackets without end") from None


@dataclass(frozen=True)
class _Call:
    """``name(key=value, …)``; a word or a number is a name without arguments."""

    name: str
    arguments: Mapping[str, _Call] = field(default_factory=dict)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def whole(self) -> _Call:
        call = self._call()
        self._expect("", "nothing more")
        return call

    def _call(self) -> _Call:
        name = self._word()
        arguments: dict[str, _Call] = {}
        if self._peek() == "(":
            self._next()
            while self._peek() != ")":
                if arguments:
                    self._expect(",", "',' or ')'")
                key = self._word()
                if key in arguments:
                    raise ModelError(f"model {self.text!r}: {key} comes twice")
                self._expect("=", f"'=' after {key}")
                arguments[key] = self._call()
            self._next()
        return _Call(name, arguments)

    def _word(self) -> str:
        if not re.fullmatch(r"[\w.+-]+", self._peek()):
            self._fail("a name or a number")
        return self._next().lower()

    def _peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match[1] if match else ""

    def _next(self) -> str:
        token = self._peek()
        self.at = self.text.index(token, self.at) + len(token)
        return token

    def _expect(self, token: str, said: str) -> None:
        if self._peek() != token:
            self._fail(said)
        self._next()

    def _fail(self, expected: str) -> None:
        got = repr(self._peek()) if self._peek() else "the end"
        raise ModelError(
            f"model {self.text!r}: expected {expected}, got {got} after {self.text[: self.at]!r}"
        )


def _model(call: _Call) -> Similarity:
    if call.name in DFR_ALIASES:
        basic, after, normalization = DFR_ALIASES[call.name]
        return DFR(
            basic, after, _build(_Call(normalization, call.arguments), NORMALIZATIONS, "normalization")
        )
    known = MODELS | {alias: MODELS[name] for alias, name in ALIASES.items()}
    model: Similarity = _build(call, known, "model", also=" and DFR by its short names such as inl2")
    return model


def _build(call: _Call, known: Mapping[str, type[Any]], kind: str, *, also: str = "") -> Any:
    if call.name not in known:
        raise ModelError(f"unknown {kind} {call.name!r}: known are {_listed(known)}{also}")
    kind_of = known[call.name]
    fields = {each.name.rstrip("_"): each for each in dataclasses.fields(kind_of)}
    for name in call.arguments:
        if name not in fields:
            takes = f"known are {_listed(fields)}" if fields else "it takes none"
            raise ModelError(f"{call.name}: unknown parameter {name!r}: {takes}")
    values = {
        fields[name].name: _value(fields[name].default, value, f"{call.name}: {name}")
        for name, value in call.arguments.items()
    }
    return kind_of(**values)


def _value(default: object, call: _Call, of: str) -> object:
    """What the call says, of the type that the parameter's default has."""
    if isinstance(default, Normalization):
        return _build(call, NORMALIZATIONS, "normalization")
    if call.arguments:
        raise ModelError(f"{of} takes a plain value, got {call.name}(…)")
    if isinstance(default, str):
        return call.name
    try:
        return float(call.name)
    except ValueError:
        raise ModelError(f"{of} must be a number, got {call.name!r}") from None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
