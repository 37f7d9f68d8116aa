"""The exceptions that telerank raises for its users.

::

    TelerankError
    ├── FormatError        a file does not follow its format (names file, line and what was expected)
    ├── CollectionError    a collection is missing, not recognised, or lacks something needed
    ├── MeasureError       a measure's name does not parse, or the measure cannot be computed
    ├── ModelError         a model cannot be opened, or a parameter is out of range
    │   └── ExpressionError  the text of a pipeline or of a model cannot be read
    │       └── FilterError  a filter cannot be read, names an unknown column or compares what it cannot
    ├── AnalyzerError      an analyzer's text form does not parse, or differs from the index's
    ├── DocumentError      a document cannot be stored (bad or repeated docno)
    ├── UnknownDocument    no document has a docno (a KeyError, too)
    ├── UnknownName        nothing has a name: no run, no measure, … (a KeyError, too)
    ├── UnknownAttribute   an object has no such attribute or method (an AttributeError, too)
    ├── IndexFault         an index cannot be opened, written or read
    │   ├── IndexLocked    another writer has it open
    │   └── IndexDamaged   one of its files is missing or does not match its checksum
    ├── UnusableFile       the system refuses to read or write a file (an OSError, too)
    ├── ArgumentError      an argument has a wrong value
    ├── ArgumentTypeError  an argument is of a wrong type (a TypeError)
    └── MissingExtra       an optional dependency is needed (names the extra; an ImportError)

All but the last two are ValueErrors, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from itertools import islice
from operator import itemgetter
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import NoReturn, TypeVar

Value = TypeVar("Value")

_NAMED = 12  # names of many that a message has
_FILE_END = re.compile(r"(?<=.)\.\w{1,8}$")
_COMPARED, _MOST_COMPARED = 20_000, 200_000  # names
_ALIKE = 0.6  # the least likeness of the nearest name, from 0 to 1
_LONGEST_MESSAGE = 1000  # characters; messages that list what is known have up to 700


class TelerankError(Exception):
    """Base class; the message is one line written for users, its notes (PEP 678) are further lines."""


class FormatError(TelerankError, ValueError):
    """A file does not follow its format: ``where:line: expected …, got …``."""

    def __init__(self, where: str | Path, line: int | None, expected: str, got: str | None = None) -> None:
        location = str(where) if line is None else f"{where}:{line}"
        tail = "" if got is None else f", got {shorten(got)}"
        super().__init__(f"{location}: expected {expected}{tail}")
        self.where, self.line, self.expected, self.got = where, line, expected, got

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.where, self.line, self.expected, self.got)


class FormatWarning(UserWarning):
    """A file does not follow its format, but is read all the same, or without the lines that are bad."""


class UnreadFiles(UserWarning):
    """Files of a folder are not read, or not whole."""


class UpdateFailed(UserWarning):
    """An index that follows a folder could not be updated now."""


class MissingVectors(UserWarning):
    """Documents of an index have no vector, so that a search of vectors does not find them."""


class MissingWeights(UserWarning):
    """Documents of an index have no weights of terms, or weights are of no document."""


class MissingQueries(UserWarning):
    """Documents have no line in a file of predicted queries, or lines are of no document."""


class LongTexts(UserWarning):
    """Texts have more tokens than a model reads, and are cut."""


class UnlikelySetting(UserWarning):
    """A setting that is possible, but seldom wanted."""


class CollectionError(TelerankError, ValueError):
    pass


class MeasureError(TelerankError, ValueError):
    pass


class ModelError(TelerankError, ValueError):
    pass


class ExpressionError(ModelError):
    pass


class FilterError(ExpressionError):
    pass


class AnalyzerError(TelerankError, ValueError):
    pass


class DocumentError(TelerankError, ValueError):
    pass


class UnknownDocument(TelerankError, KeyError, ValueError):  # noqa: N818
    """No document has the docno."""

    __str__ = Exception.__str__  # a KeyError would put quotes around the message


class UnknownName(TelerankError, KeyError, ValueError):  # noqa: N818
    """Nothing has the name."""

    __str__ = Exception.__str__


class UnknownAttribute(TelerankError, AttributeError, ValueError):  # noqa: N818
    """What users call ``called`` has no such attribute; the names that are near are found if it is shown."""

    def __init__(self, called: str, attribute: str, known: Iterable[str]) -> None:
        self.called, self.attribute, self.known = called, attribute, tuple(known)
        super().__init__(called, attribute, self.known)

    def __str__(self) -> str:
        names = [name for name in self.known if not name.startswith("_")]
        hint = _INSTEAD.get(f"{self.called}.{self.attribute}") or known_names(names, self.attribute)
        return f"{self.called} has no {self.attribute!r}; {hint}"


class UnusableFile(TelerankError, OSError, ValueError):  # noqa: N818
    """The system refuses to open, read or write a file."""

    __str__ = Exception.__str__


def name_file(error: OSError) -> UnusableFile | None:
    """The error as telerank's own, which names the file; None if it is that already, or of no file."""
    if isinstance(error, TelerankError) or error.filename is None:
        return None
    return UnusableFile(f"{error.filename}: {error.strerror or error}")


class ByName(dict[str, Value]):
    """Values by name: an unknown name raises :class:`UnknownName`, which says what is near."""

    def __init__(self, what: str, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self.what = what

    def __missing__(self, name: object) -> Value:
        raise UnknownName(f"no {self.what} {name!r}; {known_names(self, str(name))}")

    def __reduce__(self) -> tuple[object, ...]:
        return ByName, (self.what, dict(self))


class IndexFault(TelerankError, ValueError):  # noqa: N818 — IndexError is Python’s own
    pass


class IndexLocked(IndexFault):
    pass


class IndexDamaged(IndexFault):
    pass


class ArgumentError(TelerankError, ValueError):
    pass


class ArgumentTypeError(TelerankError, TypeError):
    pass


class MissingExtra(TelerankError, ImportError):  # noqa: N818
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"this needs the package {module!r}: pip install 'telerank[{extra}]'")
        self.module, self.extra = module, extra

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.module, self.extra)


def known_names(known: Iterable[str], name: str = "") -> str:
    """The end of a message about an unknown name: the nearest of those that are known, or the first dozen."""
    from difflib import get_close_matches

    names = list(known)
    if near := get_close_matches(name.casefold(), [other.casefold() for other in names], n=1):
        alike = [other for other in names if other.casefold() == near[0]]
        return f"did you mean {get_close_matches(name, alike, n=1, cutoff=0)[0]!r}?"
    if not names:
        return "none is known"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"known: {', '.join(names[:_NAMED])}{more}"


def nearest_name(known: Iterable[str], name: str) -> str:
    """``; did you mean 'NAME'?`` at the end of a message, if one of those that are known is near."""
    hint = known_names(known, name)
    return f"; {hint}" if hint.startswith("did") else ""


# What those mean who write it, by what they write it of.
_INSTEAD = {
    "tr.bm25": "write index.bm25(), of an index: tr.open(folder)",
    "tr.dense": "write index.dense(model), of an index: tr.open(folder)",
    "index.search": "write index.bm25().search(query), or tr.search(index, queries)",
    "index.to_pandas": "write index.info() or dict(index.docs)",
    "stage.transform": "write tr.search(index, queries, stage), or stage.search(query)",
    "stage.rank": "write stage.search(query)",
    "stage.evaluate": "write tr.experiment({name: stage}, queries, qrels)",
    "ranking.top": "write ranking.cut(k)",
    "ranking.head": "write ranking.cut(k)",
    "run.evaluate": "write tr.evaluate(run, measures, qrels=qrels)",
    "report.show": "write print(report)",
}


def find_attribute(of: object, attribute: str, called: str) -> object:
    """What ``__getattr__`` does in classes of telerank; users call such an object ``called``.

    Raises
    ------
    UnknownAttribute
        With what to write instead, or the nearest name.
    """
    kind = type(of)
    if hasattr(kind, attribute):  # a property, which itself asked for an attribute that is not there
        return object.__getattribute__(of, attribute)
    if attribute.startswith("_"):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {attribute!r}")
    raise UnknownAttribute(called, attribute, dir(of))


def show_value(value: object, width: int = 60) -> str:
    """A value as a message has it: a function by its name, anything else as Python writes it, cut."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType):
        return f"the {'class' if isinstance(value, type) else 'function'} {function_name(value)}"
    return f"{value!r:.{width}}"


def function_name(function: object) -> str:
    """What messages and explanations call a function, or an object that can be called."""
    own = getattr(function, "__qualname__", None) or type(function).__qualname__
    return own.replace("<locals>.", "").replace("<lambda>", "lambda")


def check_function(call: str, function: Callable[..., Value], *parameters: str) -> Callable[..., Value]:
    """The function of a user, if it can be called with these arguments, as ``call`` does.

    Raises
    ------
    ArgumentTypeError
        If it cannot.
    """
    if not callable(function):
        raise ArgumentTypeError(f"{call} takes a function, got {show_value(function)}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of one that is written in C, for example
        return function
    try:
        signature.bind(*parameters)
    except TypeError as error:
        takes = f"{function_name(function)}{signature}"
        raise ArgumentTypeError(
            f"{call} calls f({', '.join(parameters)}), but {takes} does not take that: {error}"
        ) from None
    return function


def call_own(name: str, function: Callable[..., Value], *arguments: object, of: str) -> Value:
    """What a function of the user gives; a note says of an error where it comes from, and ``of`` what."""
    try:
        return function(*arguments)
    except Exception as error:
        error.add_note(f"raised by {name}, which was called for {of}")
        raise


def refuse_item(stage: object, item: object) -> NoReturn:  # noqa: ARG001
    """The ``__getitem__`` of a stage, which has no items, and which cannot be iterated over."""
    raise ArgumentTypeError(
        "a stage has no items: stage % 10 keeps ten documents of each ranking, stage.search(query) ranks"
    )


def refuse_operand(operator: str, operand: object, *, before: bool = False) -> ArgumentTypeError:
    """The error of an operand that is no stage; it says what to write."""
    if isinstance(operand, str):
        hint = "a text becomes a stage by tr.pipeline(text, index)"
    elif getattr(operand, "__module__", "").startswith("telerank.") and callable(operand):
        hint = f"expected a stage: write {getattr(operand, '__name__', 'f')}(…)"
    elif callable(operand):
        name = getattr(operand, "__name__", "f").replace("<lambda>", "f")
        hint = f"a function becomes a stage by tr.scorer({name}), or by tr.retriever({name}) as the first one"
    else:
        hint = "expected a stage, such as index.bm25() or tr.rerank(model, index)"
    shown = show_value(operand)
    both = f"{shown} {operator} stage" if before else f"stage {operator} {shown}"
    return ArgumentTypeError(f"{both}: {hint}")


def refuse_operator(symbol: str) -> Callable[..., NoReturn]:
    """The method of an operator that stages do not have."""

    def refuse(self: object, other: object = None) -> NoReturn:  # noqa: ARG001
        hint = "; a difference is a + -1 * b" if symbol == "-" else ""
        raise ArgumentTypeError(
            f"stages are combined by a >> b, a + b, w * a and a % k, not by {symbol}{hint}"
        )

    return refuse


def count_noun(number: int, noun: str) -> str:
    """``1 pair``, ``2,000 pairs``, ``3 queries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{number:,} {noun}s"


def nearest_beside(path: str | Path) -> str:
    """As :func:`nearest_name`, of the files and folders beside a path that does not exist."""
    folder = Path(path).parent
    beside = [other.name for other in folder.iterdir()] if folder.is_dir() else []
    return "" if Path(path).exists() else nearest_name(beside, Path(path).name)


def agree(number: int, singular: str, plural: str) -> str:
    """The word that agrees with a number: ``agree(1, "is", "are")`` is ``is``."""
    return singular if number == 1 else plural


def nearest_docno(name: str, known: Iterable[str]) -> str:
    """The docno or file most like a name, or ``""``; of many, the first 20,000 are compared letter by letter.

    Of the first 200,000, names that differ only in case, folder or the end of a file's name are alike.
    """
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name.casefold())
    key, best, likeness = _plain_name(name), "", _ALIKE
    for number, other in enumerate(islice(known, _MOST_COMPARED)):
        if _plain_name(other) == key:
            return other
        if number < _COMPARED:
            matcher.set_seq1(other.casefold())
            if matcher.real_quick_ratio() > likeness and matcher.quick_ratio() > likeness:
                best, likeness = max((best, likeness), (other, matcher.ratio()), key=itemgetter(1))
    return best


def _plain_name(name: str) -> str:
    return _FILE_END.sub("", name.casefold().replace("\\", "/").rpartition("/")[2])


def shorten(text: str, width: int = 80) -> str:
    """A text of a file as an error message shows it: quoted, escaped and cut."""
    shown = repr(text[: width + 1])
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def shorten_message(message: str) -> str:
    """A message as a command or a reply shows it: of a very long one, the beginning and the end.

    A message may repeat a name or a value of any length that it was given.
    """
    if len(message) <= _LONGEST_MESSAGE:
        return message
    half = _LONGEST_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"
