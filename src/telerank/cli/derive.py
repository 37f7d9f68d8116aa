"""Commands made of functions: the arguments and options of a command are the function's parameters.

A required parameter is an argument, one with a default an option; its annotation says what it is and what the
help says of it, and ``Flags`` how it is spelled (:mod:`telerank.parameters`). A parameter whose type is a
dataclass is a group of options, which several commands share. ``**settings: FieldsOf(verb)`` are the options
that the verb declares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from typer import Argument, BadParameter, Option

from telerank.parameters import REQUIRED, Check, Flags, Help, Parameter, parameters_of

_PLAIN = (str, int, float, bool, Path)


def derive(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer reads it: with an argument or option for each parameter that can be typed."""
    groups: dict[str, tuple[type, Mapping[str, Parameter]]] = {}
    options: dict[str, Parameter] = {}
    for name, parameter in parameters_of(function).items():
        if inspect.isclass(parameter.kind) and is_dataclass(parameter.kind):
            groups[name] = parameter.kind, parameters_of(parameter.kind)
            options |= groups[name][1]
        elif _is_typed(parameter):
            options[name] = parameter

    @wraps(function)
    def command(**values: Any) -> None:
        for name, option in options.items():
            if values[name] is None and option.default is not REQUIRED:
                values[name] = option.default  # of a list, for which typer has none
        for name, (kind, inner) in groups.items():
            values[name] = kind(**{part: values.pop(part) for part in inner})
        function(**values)

    shared = {name for _, inner in groups.values() for name in inner}
    signature = [_typer_parameter(option) for option in options.values()]
    # arguments first, in their order; options that commands share last
    signature.sort(
        key=lambda option: (option.kind, option.kind == option.KEYWORD_ONLY and option.name in shared)
    )
    del command.__wrapped__  # whose signature typer would read
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return command


def _is_typed(parameter: Parameter) -> bool:
    kind = _item(_typed(parameter))
    is_choice = get_origin(kind) is Literal or (inspect.isclass(kind) and issubclass(kind, Enum))
    return is_choice or kind in _PLAIN


def _typed(parameter: Parameter) -> Any:
    """The type that is typed, the first of several."""
    return parameter.kind[0] if isinstance(parameter.kind, tuple) else parameter.kind


def _item(kind: Any) -> Any:
    """The type of a value, or of each value of a list."""
    if get_origin(kind) not in (list, tuple, Sequence):
        return kind
    item = get_args(kind)[0]
    return get_args(item)[0] if get_origin(item) is UnionType else item


def _typer_parameter(parameter: Parameter) -> inspect.Parameter:
    kind = _typed(parameter)
    item = _item(kind)
    is_list, is_required = item is not kind, parameter.default is REQUIRED
    doc, low, high = parameter.fact(Help), parameter.fact(Ge), parameter.fact(Le)
    flags: Sequence[str] = getattr(parameter.fact(Flags), "names", ())
    facts: dict[str, Any] = {"help": doc.text if doc else None}
    facts |= {
        "min": low and low.ge,
        "max": high and high.le,
        "metavar": next(filter(str.isupper, flags), None),
    }
    if check := parameter.fact(Check):
        facts["callback"] = _callback(check)
    spelled = [flag for flag in flags if flag.startswith("-")]
    if spelled and not any(flag.startswith("--") for flag in spelled):
        spelled.insert(0, f"--{parameter.name.strip('_').replace('_', '-')}")
    if item is bool and parameter.default is False and not spelled:
        spelled = [f"--{parameter.name.replace('_', '-')}"]
    is_argument = not spelled and (is_required or facts["metavar"] is not None)
    default = ... if is_required else None if is_list and not parameter.default else parameter.default
    info = Argument(default, **facts) if is_argument else Option(default, *spelled, **facts)
    annotation: Any = GenericAlias(list, (item,)) if is_list else item
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD if is_argument else inspect.Parameter.KEYWORD_ONLY
    annotation = annotation | None if default is None else annotation
    return inspect.Parameter(parameter.name, keyword, default=info, annotation=annotation)


def _callback(check: Check) -> Callable[[Any], Any]:
    def run(value: Any) -> Any:
        try:
            check.function(value)
        except ValueError as error:
            raise BadParameter(str(error)) from error
        return value

    return run
