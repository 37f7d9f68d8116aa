"""What a function takes, read from its own signature: texts, options and records are derived from it.

A parameter's annotation says everything: its type, its bounds (``annotated_types.Ge``, …), the words that
stand for values (:class:`WordValues`), a check (:class:`Check`) and what a help says (:class:`Help`). Those
that several functions take are at the end.
"""

from __future__ import annotations

import builtins
import inspect
import math
import pkgutil
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, partialmethod, wraps
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Le

from telerank.errors import (
    ArgumentError,
    ArgumentTypeError,
    find_attribute,
    known_names,
    name_file,
    nearest_name,
    show_value,
)

F = TypeVar("F")
P = ParamSpec("P")
R = TypeVar("R")
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
        if name in records and records[name].description and not any(isinstance(x, Help) for x in facts):
            facts = (*facts, Help(" ".join(records[name].description.split())))
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
Device = Annotated[str | None, Help("`cpu`, `cuda`, …; default: a GPU if there is one.")]
FoldCount = Annotated[int, Ge(2), Help("Folds of the cross-validation.")]
FoldSeed = Annotated[int, Help("Seed of the folds.")]
AnalyzerName = Annotated[
    str,
    Flags("--analyzer", "-a"),
    Help("`none`, `standard`, `english`, `french`, or steps such as `french|asciifold`."),
]
# What is done about copies of documents: exact ones are counted or left out, or both exact and near ones.
CopySetting = Literal["count", "leave-out", "count-near", "leave-out-near"]


# Arguments of public functions are checked by the types of their signatures.
_NUMBERS: Mapping[Any, type] = {float: Real, int: Integral}
_SCALARS = (str, bytes, Real, Path)
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
    tuple: "a list",
    Callable: "a function",
    None: "None",
    type(None): "None",
}
"""What types are called; classes have a name of their own."""


def check_arguments(function: Callable[P, R], name: str) -> Callable[P, R]:
    """The function, which checks its arguments first; ``name`` is what users call it.

    Bounds and checks of an annotation count, too; what a container holds is not checked. Of types that are
    only there for type checkers it is known that they are none of Python's own.

    Raises
    ------
    ArgumentTypeError
        By the function, if an argument is missing, unknown, or of another type.
    ArgumentError
        By the function, if an argument is beyond its bounds.
    UnusableFile
        By the function, if the system refuses a file, which the message names.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentTypeError(f"{name}: {_describe(error, function, kwargs)}") from None
        annotations = _annotations(function)
        for parameter, value in given.items():
            kind = signature.parameters[parameter].kind
            if kind is kind.VAR_KEYWORD:
                for key, each in value.items():
                    if key not in annotations and None in annotations:
                        raise ArgumentTypeError(f"{name}: {_unknown(key, annotations)}")
                    _check_value(f"{name}: {key}", each, annotations.get(key, Any))
            else:
                for each in value if kind is kind.VAR_POSITIONAL else [value]:
                    _check_value(f"{name}: {parameter}", each, annotations[parameter])
        try:
            return function(*args, **kwargs)
        except OSError as error:
            raise (name_file(error) or error) from error

    return checked


def _check_value(what: str, value: Any, annotation: Any) -> None:
    """Raise ArgumentTypeError if a value is of another type, ArgumentError if it is beyond the bounds."""
    facts: list[Any] = []
    if get_origin(annotation) is Annotated:
        annotation, *facts = get_args(annotation)
    if not _fits(value, annotation):
        expected = " or ".join(dict.fromkeys(_name(annotation)))
        raise ArgumentTypeError(
            f"{what} must be {expected}, got {show_value(value)}{_hint(value, annotation)}"
        )
    if isinstance(value, str) and not value.strip() and Path in (annotation, *get_args(annotation)):
        raise ArgumentError(f"{what} is an empty text")
    for fact in facts if isinstance(value, Real) else ():
        if isinstance(fact, Ge) and not value >= fact.ge:
            raise ArgumentError(f"{what} must be at least {fact.ge}, got {value!r}")
        if isinstance(fact, Le) and not value <= fact.le:
            raise ArgumentError(f"{what} must be at most {fact.le}, got {value!r}")


def check_methods(name: str) -> Callable[[type[R]], type[R]]:
    """Makes the public methods of a class check their arguments; ``name`` is what users call an object.

    What is asked for an attribute that it has not says what is near.
    """

    def check(kind: type[R]) -> type[R]:
        kind.__getattr__ = partialmethod(find_attribute, called=name)  # type: ignore[attr-defined]
        for key, function in list(vars(kind).items()):
            if key == "__init__":
                setattr(kind, key, check_arguments(function, f"tr.{name.capitalize()}"))
            elif isinstance(function, types.FunctionType) and not key.startswith("_"):
                checked = check_arguments(function, f"{name}.{key}")
                returns = str(function.__annotations__.get("return", ""))
                setattr(
                    kind, key, FirstStage(checked, f"{name}.{key}") if "Retriever" in returns else checked
                )
        return kind

    return check


def check_fields(kind: type[R]) -> type[R]:
    """Makes a record check what it is made of, as :func:`check_methods` does for other classes.

    A record that is right costs half a microsecond more.
    """
    make: Callable[..., None] = kind.__init__
    name = f"tr.{kind.__name__}"

    @cache
    def tests() -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        annotations = _annotations(make)
        by_name = {str(key): _quick_test(each) for key, each in annotations.items() if key != "self"}
        return tuple(by_name.values()), by_name

    @wraps(make)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        in_order, by_name = tests()
        try:
            is_right = len(args) <= len(in_order) and all(map(isinstance, args, in_order))
            if is_right and (not kwargs or all(isinstance(kwargs[key], by_name[key]) for key in kwargs)):
                make(self, *args, **kwargs)
                return
        except (TypeError, KeyError):
            check_arguments(make, name)(self, *args, **kwargs)  # says which argument is wrong
            raise
        check_arguments(make, name)(self, *args, **kwargs)

    kind.__init__ = checked  # type: ignore[method-assign]
    kind.__getattr__ = partialmethod(find_attribute, called=kind.__name__.lower())  # type: ignore[attr-defined]
    return kind


def _quick_test(annotation: Any) -> Any:
    """The class for which ``isinstance`` answers at once; ``object`` for what needs no answer."""
    return annotation if annotation in (str, int) or inspect.isclass(annotation) else object


class FirstStage:
    """A method that makes a first stage; what is done with a stage says that the call is missing."""

    def __init__(self, function: Callable[..., Any], name: str, index: object = None) -> None:
        self.function, self.name, self.index = function, name, index
        wraps(function)(self)

    def __get__(self, index: object, kind: type) -> FirstStage:
        return self if index is None else FirstStage(self.function, self.name, index)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.index, *args, **kwargs)

    def refuse(self, *_: object) -> NoReturn:
        raise ArgumentTypeError(f"{self.name} makes a stage when it is called: write {self.name}()")

    __mod__ = __rshift__ = __rrshift__ = __add__ = __radd__ = __mul__ = __rmul__ = search = run = refuse


@cache
def _annotations(function: Callable[..., Any]) -> Mapping[str | None, Any]:
    """The types of parameters, with bounds; the key None is there if ``**settings`` are known by name."""
    whole: Any = inspect.unwrap(function)
    annotations: dict[str | None, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = object if parameter.annotation is parameter.empty else parameter.annotation
        if isinstance(annotation, str):
            annotation = _resolve(annotation, whole.__globals__)
        marked = next((fact for fact in get_args(annotation) if isinstance(fact, FieldsOf)), None)
        if marked is not None:
            fields = _fields_of(marked, ())
            annotations |= {key: _as_annotation(each) for key, each in fields.items()} | {None: Any}
        annotations[name] = _as_annotation(_parameter(name, annotation, parameter.default))
    return annotations


def _as_annotation(parameter: Parameter) -> Any:
    kinds = parameter.kind if isinstance(parameter.kind, tuple) else (parameter.kind,)
    none = (None,) if parameter.is_optional else ()
    whole: Any = Union[(*kinds, *none)]
    for fact in parameter.facts:
        whole = Annotated[whole, fact]
    return whole


class _Unseen:
    """Stands for a type that is imported for type checkers alone."""


class _Seen(dict[str, Any]):
    """The names of a module as an annotation has them: some are imported for type checkers alone."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        return _Unseen


def _resolve(annotation: str, names: dict[str, Any]) -> Any:
    """The type of an annotation, whose parts that are not there are :class:`_Unseen`."""
    try:
        return eval(annotation, {}, _Seen(names))  # noqa: S307 — of our own source
    except TypeError:  # a text in a union, or arguments of a type that is not there
        return object


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of a type, as far as a program can see."""
    if annotation is Any:
        return True
    if annotation is _Unseen or getattr(annotation, "_is_protocol", False):
        return not isinstance(value, _SCALARS) and value is not None
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(annotation))
    if origin is Literal:
        return value in get_args(annotation)
    if annotation in (float, int, bool):
        is_bool = type(value).__name__ in ("bool", "bool_")  # numpy's own has the other name
        return is_bool if annotation is bool else isinstance(value, _NUMBERS[annotation]) and not is_bool
    kind = type(None) if annotation is None else origin or annotation
    return not isinstance(kind, type) or _is_of(value, kind)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a class, or becomes one of it: a path is given as a text, an array as a list."""
    if kind is Callable:
        return callable(value)
    if kind is Path:
        return isinstance(value, str | Path)
    if kind in (Sequence, Iterable, list, tuple) or kind.__name__ == "ndarray":
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)  # no list of letters
    return isinstance(value, kind)


def _name(annotation: Any) -> list[str]:
    """What is expected, in words."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return [
            word for part in get_args(annotation) if part not in (type(None), _Unseen) for word in _name(part)
        ]
    if origin is Literal:
        return [repr(value) for value in get_args(annotation)]
    kind = origin or annotation
    if kind in _WORDS:
        return [_WORDS[kind]]
    name = getattr(kind, "__name__", str(kind))
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = words if words.isupper() else words.lower()
    return [f"{'an' if words[0] in 'aeiou' else 'a'} {words}"]


def _hint(value: Any, annotation: Any) -> str:
    """What to write instead, if that is known."""
    wants = _name(annotation)
    if isinstance(value, str) and get_origin(annotation) is Literal:
        return nearest_name(map(str, get_args(annotation)), value)
    if "a stage" in wants and isinstance(value, FirstStage):
        return f": write {value.name}()"
    if "a stage" in wants and isinstance(value, str):
        return ": a text becomes a stage by tr.pipeline(text, index)"
    if "a stage" in wants and isinstance(value, list | tuple):
        return ": give the stages one by one, without a list"
    if "a stage" in wants and callable(value):
        return ": a function becomes a stage by tr.scorer(f) or tr.retriever(f)"
    return ""


def _describe(error: TypeError, function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """What is wrong with the number or the names of arguments; a near name for an unknown one."""
    known = _annotations(function)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in inspect.signature(function).parameters.values())
    unknown = [name for name in given if name not in known]
    if unknown and not takes_any:
        return _unknown(unknown[0], known)
    names = ", ".join(_names_of(known))
    return f"{error}; it takes {names}" if str(error).startswith("too many") else str(error)


def _names_of(known: Iterable[str | None]) -> list[str]:
    return [each for each in known if each not in (None, "self", "settings")]


def _unknown(name: str, known: Iterable[str | None]) -> str:
    return f"there is no parameter {name!r}; {known_names(_names_of(known), name)}"
