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
    ├── IndexFault         an index cannot be opened, written or read
    │   ├── IndexLocked    another writer has it open
    │   └── IndexDamaged   one of its files is missing or does not match its checksum
    ├── ArgumentError      an argument has a wrong value
    ├── ArgumentTypeError  an argument is of a wrong type (a TypeError)
    └── MissingExtra       an optional dependency is needed (names the extra; an ImportError)

All but the last two are ValueErrors, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from itertools import islice
from operator import itemgetter
from pathlib import Path
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


def refuse_operand(operator: str, operand: object, *, before: bool = False) -> ArgumentTypeError:
    """The error of an operand that is no stage; it says what to write."""
    if isinstance(operand, str):
        hint = "a text becomes a stage by tr.pipeline(text, index)"
    elif callable(operand):
        name = getattr(operand, "__name__", "f").replace("<lambda>", "f")
        hint = f"a function becomes a stage by tr.scorer({name}), or by tr.retriever({name}) as the first one"
    else:
        hint = "expected a stage, such as index.bm25() or tr.rerank(model, index)"
    both = f"{operand!r:.60} {operator} stage" if before else f"stage {operator} {operand!r:.60}"
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
