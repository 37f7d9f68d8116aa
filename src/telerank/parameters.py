"""What a function takes, read from its own signature: texts, options and records are derived from it.

A parameter's annotation says everything: its type, its bounds (``annotated_types.Ge``, …), the words that
stand for values (:class:`WordValues`), a check (:class:`Check`) and what a help says (:class:`Help`). Those
that several functions take are at the end.
"""

from __future__ import annotations

import inspect
import math
import pkgutil
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le

F = TypeVar("F")
# The default of a parameter that must be given.
REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Help:
    """What a help says of a parameter."""

    text: str


@dataclass(frozen=True)
class WordValues:
    """Words that stand for values: ``WordValues({"none": math.inf})``."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """A check of a value, which raises ValueError."""

    function: Callable[[Any], object]


def check_finite(number: float) -> None:
    """Raise ValueError for infinity."""
    if not math.isfinite(number):
        raise ValueError("expected a finite number")


@dataclass(frozen=True)
class Flags:
    """How a command line spells a parameter: its options, or the name of an argument in capitals."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True)
class FieldsOf:
    """Marks ``**settings`` that are the fields of a class, or what a function takes besides.

    One that is named is imported when it is needed. ``only_given``: what is not given is None, and not the
    field's default, for which a file may have another value.
    """

    record: Callable[..., Any] | str
    without: tuple[str, ...] = ()
    only_given: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter: ``kind`` is its type without None, ``facts`` are what its annotation has besides."""

    name: str
    kind: Any
    default: Any = REQUIRED
    is_optional: bool = False
    is_many: bool = False
    facts: tuple[Any, ...] = ()

    def fact(self, kind: type[F]) -> F | None:
        """The fact of this type, if the annotation has one."""
        return next((fact for fact in self.facts if isinstance(fact, kind)), None)


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a function or class by name, in the order in which arguments without names are taken.

    ``**settings`` that are marked :class:`FieldsOf` stand for those fields, before what is keyword-only.
    """
    fields: dict[str, Parameter] = {}
    last: dict[str, Parameter] = {}
    whole = function
    while isinstance(whole, partial):
        whole = whole.func
    is_class = inspect.isclass(whole)
    names = get_type_hints(whole, include_extras=True) if is_class else whole.__globals__
    records = getattr(function, "model_fields", {})
    given = inspect.signature(function).parameters
    for name, each in given.items():
        annotation = names[name] if is_class else each.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, names)  # noqa: S307 — of our own source
            except NameError:  # a type that is imported for checks alone: no text can be read as it
                annotation = object
        facts = tuple(records[name].metadata) if name in records else ()
        parameter = _parameter(name, annotation, each.default, facts)
        if each.kind is each.VAR_KEYWORD:
            marked = parameter.fact(FieldsOf)
            fields |= _fields_of(marked, given) if marked else {}
        elif each.kind is each.KEYWORD_ONLY:
            last[name] = parameter
        else:
            fields[name] = replace(parameter, is_many=each.kind is each.VAR_POSITIONAL)
    return {**fields, **last}


def _fields_of(marked: FieldsOf, given: Iterable[str]) -> dict[str, Parameter]:
    """The fields of a class, or the parameters of a function, that are not ``given`` themselves."""
    record = marked.record
    source = pkgutil.resolve_name(record) if isinstance(record, str) else record
    left_out = {*marked.without, *given}
    fields = {name: each for name, each in parameters_of(source).items() if name not in left_out}
    if marked.only_given:
        return {name: replace(each, default=None, is_optional=True) for name, each in fields.items()}
    return fields


def _parameter(name: str, annotation: Any, default: Any, facts: tuple[Any, ...] = ()) -> Parameter:
    kinds = []
    unread = [annotation]
    while unread:
        kind, *unread = unread
        if get_origin(kind) is Annotated:
            inner, *more = get_args(kind)
            unread, facts = [inner, *unread], (*facts, *more)
        elif get_origin(kind) in (Union, types.UnionType):
            unread = [*get_args(kind), *unread]
        else:
            kinds.append(kind)
    given = tuple(kind for kind in kinds if kind is not types.NoneType)
    return Parameter(
        name, given[0] if len(given) == 1 else given, default, len(given) < len(kinds), facts=facts
    )


Split = Annotated[str | None, Help("Split of the collection; default: the only one.")]
Measures = Annotated[
    str | Sequence[str],
    Flags("-m"),
    Help("Measures by the names of ir_measures or trec_eval, separated by spaces."),
]
MeasureToMaximise = Annotated[
    str, Flags("-m"), Help("Measure to maximise, as ir_measures or trec_eval name it.")
]
RelevanceLevel = Annotated[
    int,
    Ge(1),
    Flags("--level-for-rel", "-l", "LEVEL"),
    Help("Grades from LEVEL up are relevant, as for `trec_eval -l`."),
]
Level = Annotated[float, Ge(0.0), Le(1.0), Help("A difference is significant if its p is below this.")]
BatchTokens = Annotated[int, Ge(1), Help("Most tokens in a batch, padding included.")]
Device = Annotated[str | None, Help("`cpu`, `cuda`, …; default: a GPU if there is one.")]
Candidates = Annotated[
    str | None,
    Flags("--candidates", "RUN|POOL"),
    Help("A run file, or a pool of the collection (`test/100`), to draw from. Default: its only pool."),
]
PairCount = Annotated[int, Ge(1), Flags("-n"), Help("Number of pairs to draw.")]
DrawSeed = Annotated[int, Help("Seed of the draw.")]
FoldCount = Annotated[int, Ge(2), Help("Folds of the cross-validation.")]
FoldSeed = Annotated[int, Help("Seed of the folds.")]
AnalyzerName = Annotated[
    str,
    Flags("--analyzer", "-a"),
    Help("`none`, `standard`, `english`, `french`, or steps such as `french|asciifold`."),
]
