"""Arguments of public functions are checked by the types of their signatures.

A wrong one is told in a line: the function, the parameter, what was expected, what was given.
"""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np

from telerank.errors import ArgumentTypeError

P = ParamSpec("P")
R = TypeVar("R")

_NUMBERS: Mapping[Any, tuple[type, ...]] = {float: (Real,), int: (Integral,), bool: (bool, np.bool_)}
_WORDS: Mapping[Any, str] = {
    str: "a text",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Mapping: "a dict",
    dict: "a dict",
    Sequence: "a list",
    Iterable: "a list",
    list: "a list",
    tuple: "a tuple",
    Callable: "a function",
    None: "None",
    type(None): "None",
}
"""What types are called; classes have a name of their own."""


def check_arguments(function: Callable[P, R], name: str) -> Callable[P, R]:
    """The function, which checks its arguments first; ``name`` is what users call it.

    Types that are only there for type checkers are not checked, and neither is what a container holds.

    Raises
    ------
    ArgumentTypeError
        By the function, if an argument is missing, unknown, or of another type.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentTypeError(f"{name}: {_describe(error, signature, kwargs)}") from None
        for parameter, value in given.items():
            kind, annotation = signature.parameters[parameter].kind, _annotations(function)[parameter]
            values = value.values() if kind is kind.VAR_KEYWORD else value
            for each in values if kind in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL) else [value]:
                if not _fits(each, annotation):
                    expected = " or ".join(dict.fromkeys(_name(annotation)))
                    got = f"got {each!r:.60}{_hint(each, annotation)}"
                    raise ArgumentTypeError(f"{name}: {parameter} must be {expected}, {got}")
        return function(*args, **kwargs)

    return checked


@cache
def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The types of parameters; those that are not there when a program runs are ``object``."""
    whole: Any = inspect.unwrap(function)
    found: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        found[name] = object if parameter.annotation is parameter.empty else parameter.annotation
        if isinstance(found[name], str):
            found[name] = _resolve(found[name], whole.__globals__)
        if get_origin(found[name]) is Annotated:
            found[name] = get_args(found[name])[0]
    return found


def _resolve(annotation: str, names: dict[str, Any]) -> Any:
    """The type of an annotation; of a union those parts that are there, and ``object`` for the others."""
    try:
        return eval(annotation, names)  # noqa: S307 — of our own source
    except NameError:
        return object


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of a type, as far as a program can see."""
    if annotation is Any:
        return True
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(annotation))
    if origin is Literal:
        return value in get_args(annotation)
    if annotation in _NUMBERS:
        return isinstance(value, _NUMBERS[annotation]) and (annotation is bool or not isinstance(value, bool))
    kind = type(None) if annotation is None else origin or annotation
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return kind is not Callable or callable(value)
    is_text = kind in (Sequence, Iterable) and isinstance(value, str | bytes)  # which is no list of letters
    return isinstance(value, kind) and not is_text


def _name(annotation: Any) -> list[str]:
    """What is expected, in words."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return [word for part in get_args(annotation) if part is not type(None) for word in _name(part)]
    if origin is Literal:
        return [repr(value) for value in get_args(annotation)]
    kind = origin or annotation
    if kind in _WORDS:
        return [_WORDS[kind]]
    name = getattr(kind, "__name__", str(kind))
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    return [f"{'an' if words[0] in 'aeiou' else 'a'} {words}"]


def _hint(value: Any, annotation: Any) -> str:
    """What to write instead, if that is known."""
    wants = _name(annotation)
    if "a stage" in wants and isinstance(value, str):
        return ": a text becomes a stage by tr.pipeline(text, index)"
    if "a stage" in wants and isinstance(value, list | tuple):
        return ": give the stages one by one, without a list"
    if "a stage" in wants and callable(value):
        return ": a function becomes a stage by tr.scorer(f) or tr.retriever(f)"
    return ""


def _describe(error: TypeError, signature: inspect.Signature, given: Mapping[str, Any]) -> str:
    """What is wrong with the number or the names of arguments; a near name for an unknown one."""
    known = [name for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD]
    unknown = [name for name in given if name not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=1)
        what = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"there is no parameter {unknown[0]!r} ({what})"
    return str(error)
