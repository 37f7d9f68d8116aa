"""What a function takes, read from its own signature: texts, options and records are derived from it.

A parameter's annotation says everything: its type, its bounds (``annotated_types.Ge``, …), the words that
stand for values (:class:`WordValues`), a check (:class:`Check`) and what a help says (``Doc``).
"""

from __future__ import annotations

import inspect
import pkgutil
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

F = TypeVar("F")
REQUIRED: Any = inspect.Parameter.empty
"""The default of a parameter that must be given."""


@dataclass(frozen=True)
class WordValues:
    """WordValues that stand for values: ``WordValues({"none": math.inf})``."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """A check of a value, which raises ValueError."""

    function: Callable[[Any], object]


@dataclass(frozen=True)
class FieldsOf:
    """Marks ``**settings`` that are the fields of a class; a named one is imported when it is needed."""

    record: type | str
    without: tuple[str, ...] = ()


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
    names = (whole.__init__ if inspect.isclass(whole) else whole).__globals__
    for name, each in inspect.signature(function).parameters.items():
        text = each.annotation
        annotation = eval(text, names) if isinstance(text, str) else text  # noqa: S307 — of our own source
        parameter = _parameter(name, annotation, each.default)
        if each.kind is each.VAR_KEYWORD:
            fields.update(_fields_of(parameter.fact(FieldsOf)))
        elif each.kind is each.KEYWORD_ONLY:
            last[name] = parameter
        else:
            fields[name] = replace(parameter, is_many=each.kind is each.VAR_POSITIONAL)
    return {**fields, **last}


def _fields_of(marked: FieldsOf | None) -> Iterator[tuple[str, Parameter]]:
    """The fields of a dataclass or of a model of pydantic."""
    if marked is None:
        return
    record = marked.record
    cls = pkgutil.resolve_name(record) if isinstance(record, str) else record
    records = getattr(cls, "model_fields", {})
    hints = get_type_hints(cls, include_extras=True)
    for name, each in inspect.signature(cls).parameters.items():
        if name not in marked.without:
            facts = tuple(records[name].metadata) if name in records else ()
            yield name, _parameter(name, hints[name], each.default, facts)


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
