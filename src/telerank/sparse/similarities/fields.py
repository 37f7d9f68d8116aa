"""Models that read fields: BM25F over several, and any other model over one."""

# ruff: noqa: ARG002 — all have one signature; not every formula needs every statistic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from telerank.errors import ArgumentTypeError, ModelError, known_names, shorten
from telerank.expressions import (
    Call,
    as_name,
    as_number,
    number_text,
    quote,
    quoted_key,
    read_key,
    wrong,
)
from telerank.sparse.similarities.base import Beside, Count, Floats, Reads, Similarity, Statistics

# Numbers by the names of fields (:func:`list_fields`).
OfFields: TypeAlias = tuple[tuple[str, float], ...]
# What a model may read besides texts and fields: weights of terms.
Over: TypeAlias = Literal["weights"] | None
_OWN = ".b"
_HEAVIEST = 1000
LENGTHS = ("fields", "combined")
OVER, WEIGHTS = "over", "weights"


@dataclass(frozen=True, repr=False)
class BM25F(Similarity):
    """idf · x / (x + k1), x = Σ weight · tf / (1 − b + b · length / avg) over fields.

    idf = ln(1 + (N − df + ½) / (df + ½)); N counts the documents that have one of the fields, df those with
    the term in one of them. Lengths are those of each field, and averages over the documents that have it.
    With ``lengths=combined`` all fields share one: length = Σ weight · length of the field, avg its mean over
    the N documents.

    ``weights``, above 0 and up to 1000, by field; none: all fields of the index, each with 1. A term counts
    in a field of weight 3 as if it stood there three times.
    ``k1``, from 0 to 1000, and ``b``, from 0 to 1, as in ``bm25``; ``own_b`` (``title.b`` in the text form)
    is that of a field.

    Robertson, Zaragoza and Taylor, Simple BM25 Extension to Multiple Weighted Fields (2004), with lengths by
    field as Zaragoza, Craswell, Taylor, Saria and Robertson, Microsoft Cambridge at TREC 13 (2004), have
    them. With ``lengths=combined`` it is Lucene's ``CombinedFieldQuery``, which takes for N and df the
    largest of a field.
    """

    name: ClassVar = "bm25f"
    ranges: ClassVar = {"k1": (0, 1000), "b": (0, 1)}
    words: ClassVar = {"lengths": LENGTHS}
    weights: OfFields = ()
    k1: float = 1.2
    b: float = 0.75
    own_b: OfFields = ()
    lengths: str = "fields"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, weight in self.weights:
            if not 0 < weight <= _HEAVIEST:
                expected = f"the weight of {field} must be above 0 and at most {_HEAVIEST}"
                raise ModelError(f"bm25f: {expected}, got {weight:g}")
        for field, b in self.own_b:
            if not 0 <= b <= 1:
                raise ModelError(f"bm25f: {field}{_OWN} must be from 0 to 1, got {b:g}")
            if self.weights and field not in dict(self.weights):
                known = known_names(dict(self.weights), field)
                raise ModelError(f"bm25f: {field}{_OWN} is of a field without a weight; {known}")
        if self.own_b and self.lengths == "combined":
            raise ModelError("bm25f: with lengths=combined all fields share one b")

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict(self.weights))

    def bound_to(self, fields: Sequence[str]) -> BM25F:
        named = (*dict(self.weights), *dict(self.own_b))
        for name in named or fields[:1] or ("title",):
            check_field(name, fields, self.name)
        return self if self.weights else replace(self, weights=tuple((name, 1.0) for name in fields))

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        x = self.weigh(tf, length, collection).sum(axis=0)  # one after the other
        idf = np.log1p((collection.documents - df + 0.5) / (df + 0.5))
        return np.asarray(idf * (x / (x + self.k1)))

    def weigh(self, tf: Floats, length: Floats, collection: Statistics) -> Floats:
        """What the occurrences in each field count (F, P), whose sum is saturated."""
        own = dict(self.own_b)
        weights = np.array([weight for _, weight in self.weights])[:, None]
        if self.lengths == "combined":
            tokens = sum(w * part.tokens for w, part in zip(weights[:, 0], collection.fields, strict=True))
            relative = (weights * length).sum(axis=0) * (collection.documents / tokens)
            norms = np.broadcast_to(1 - self.b + self.b * relative, tf.shape)
        else:
            b = np.array([own.get(name, self.b) for name, _ in self.weights])[:, None]
            average = np.array([part.average_length or 1.0 for part in collection.fields])[:, None]
            norms = 1 - b + b * length / average
        # a field that lacks the term may be empty, with a norm of 0
        counted: Floats = np.divide(weights * tf, norms, out=np.zeros_like(tf), where=tf > 0)
        return counted

    def __repr__(self) -> str:
        parts = [f"{field_key(field)}={number_text(weight)}" for field, weight in self.weights]
        parts += [f"k1={number_text(self.k1)}", f"b={number_text(self.b)}"]
        parts += [f"{field_key(field)}{_OWN}={number_text(b)}" for field, b in self.own_b]
        return f"bm25f({', '.join(parts)}{', lengths=combined' if self.lengths == 'combined' else ''})"


@dataclass(frozen=True, repr=False)
class InField(Similarity):
    """Another model that reads one field, with its statistics: ``bm25(k1=0.9, b=0.4, field=title)``."""

    name: ClassVar = "in_field"
    model: Similarity
    field: str

    def __post_init__(self) -> None:
        if self.model.reads is not None:
            raise ModelError(f"{self.model!r} names its fields itself: leave out field={quote(self.field)}")
        if not isinstance(self.field, str) or not self.field:
            raise ArgumentTypeError(f"expected the name of a field, a text, got {self.field!r:.60}")

    @property
    def reads(self) -> Reads:
        return self.field

    def bound_to(self, fields: Sequence[str]) -> Similarity:
        check_field(self.field, fields, repr(self))
        return self.model

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return self.model.formula(tf, length, df, cf, collection)

    def __repr__(self) -> str:
        return _with_argument(repr(self.model), f"field={quote(self.field)}")


@dataclass(frozen=True, repr=False)
class OverWeights(Similarity):
    """Another model that reads an index's weights of terms as counts: ``bm25(k1=8, b=0.9, over=weights)``.

    A document's tf is the weight of the term, its length the sum of its weights; df, cf and averages are
    those of the weights, which have to be whole numbers, such as DeepCT's (Dai and Callan 2019).
    """

    name: ClassVar = "over_weights"
    model: Similarity

    def __post_init__(self) -> None:
        if self.model.reads is not None:
            raise ModelError(f"{self.model!r} reads fields: leave out {OVER}={WEIGHTS}")

    @property
    def reads(self) -> Reads:
        return Beside.COUNTS

    def bound_to(self, fields: Sequence[str]) -> Similarity:
        return self.model

    def formula(self, tf: Floats, length: Floats, df: Count, cf: Count, collection: Statistics) -> Floats:
        return self.model.formula(tf, length, df, cf, collection)

    def __repr__(self) -> str:
        return _with_argument(repr(self.model), f"{OVER}={WEIGHTS}")


def over_what(model: Similarity, field: str | None, over: str | None) -> Similarity:
    """A model of the whole texts; of one ``field``; or ``over`` an index's weights of terms.

    Raises ModelError if it is to read two of these, or ``over`` is anything but "weights".
    """
    if over is not None and over != WEIGHTS:
        raise ModelError(f"{model!r}: {OVER} must be {WEIGHTS}, got {over!r:.60}")
    if over is not None and field is not None:
        raise ModelError(f"{model!r}: expected field or {OVER}, got both")
    if over is not None:
        return OverWeights(model)
    return model if field is None else InField(model, field)


def _with_argument(text: str, argument: str) -> str:
    start = f"{text[:-1]}, " if text.endswith(")") else f"{text}("
    return f"{start}{argument})"


def list_fields(given: Mapping[str, float] | None) -> OfFields:
    """The numbers of a mapping by field; raises ArgumentTypeError if it is none."""
    try:
        listed = tuple((field, float(value)) for field, value in (given or {}).items())
    except (AttributeError, TypeError, ValueError) as error:
        expected = "expected numbers by field, such as {'title': 3, 'text': 1}"
        raise ArgumentTypeError(f"bm25f: {expected}, got {given!r:.60}") from error
    for field, _ in listed:
        if not isinstance(field, str) or not field:
            raise ArgumentTypeError(f"bm25f: expected the name of a field, a text, got {field!r:.60}")
    return listed


def check_field(field: str, fields: Sequence[str], model: str) -> None:
    """Raise ModelError if an index with these ``fields`` lacks one."""
    if not fields:
        how = (
            "index it again with --fields title,text,… and --overwrite, "
            f"in Python fields=['title', 'text', {field!r:.60}]"
        )
        how = how if field not in ("title", "text") else how.replace(",…", "").replace(f", {field!r}", "")
        raise ModelError(f"{model}: the index has no fields: {how}")
    if field not in fields:
        raise ModelError(f"{model}: the index has no field {shorten(field)}; {known_names(fields, field)}")


_SETTINGS = ("k1", "b", "lengths")


def field_key(field: str) -> str:
    """The name of a field as it stands before ``=``: quoted if it is no word or has another meaning there."""
    is_plain = quote(field) == field and field not in _SETTINGS and not field.endswith(_OWN)
    return field if is_plain else quoted_key(field)


def parse_bm25f(call: Call, text: str) -> BM25F:
    """The model of ``bm25f(title=3, text=1, k1=1.2, title.b=0.5)``, with fields in quotes if need be.

    Raises
    ------
    ExpressionError
        If the text describes none.
    """
    weights, own_b, settings = dict[str, float](), dict[str, float](), dict[str, Any]()
    for key, value in call.arguments:
        if not key:
            raise wrong(text, value.at, "bm25f takes fields with their weights, such as title=3, k1 and b")
        name = key.removesuffix(_OWN)
        is_own = name not in (key, "")
        target: dict[str, Any] = settings if key in _SETTINGS else own_b if is_own else weights
        name = read_key(name if is_own else key)
        if name in target:
            raise wrong(text, value.at, f"bm25f: {shorten(name)} is given twice")
        target[name] = as_name(value, text) if key == "lengths" else as_number(value, text)
    try:
        return BM25F(list_fields(weights), own_b=list_fields(own_b), **settings)
    except ModelError as error:
        raise wrong(text, call.at, str(error)) from error


_K1, _B, _WEIGHTS = (
    (0.6, 1.2, 2.0, 4.0),
    ((0.3, 0.3), (0.3, 0.75), (0.75, 0.3), (0.75, 0.75)),
    (0.5, 1, 2, 4, 8),
)
_MOST_TUNED = 4


def make_field_grid(model: BM25F, fields: Sequence[str]) -> tuple[BM25F, ...]:
    """The settings of BM25F that tuning tries, over the fields of a model, or all of an index; at most 80.

    The last field, or ``text``, has the weight 1, and the b of its own that is not ``b``: multiplying all
    weights is dividing k1.
    """
    names = list(model.reads or fields)
    if not 1 <= len(names) <= _MOST_TUNED:
        raise ModelError(f"bm25f: name 1 to {_MOST_TUNED} fields to tune, got {len(names)}")
    base = "text" if "text" in names else names[-1]
    others = [name for name in names if name != base]
    values: Sequence[float] = _WEIGHTS if len(others) == 1 else (1.0, 4.0)
    grid = []
    for k1, (b, own), chosen in product(_K1, _B, product(values, repeat=len(others))):
        weights = dict(zip(others, chosen, strict=True)) | {base: 1.0}
        own_b = ((base, own),) if own != b else ()
        grid.append(BM25F(tuple((name, weights[name]) for name in names), k1, b, own_b))
    return tuple(dict.fromkeys(grid))
