"""The exceptions that telerank raises for its users.

::

    TelerankError
    ├── FormatError        a file does not follow its format (names file, line and what was expected)
    ├── CollectionError    a collection is missing, not recognised, or lacks something needed
    ├── MeasureError       a measure's name does not parse, or the measure cannot be computed
    ├── ModelError         a model cannot be opened, or a parameter is out of range
    │   └── ExpressionError  the text of a pipeline or of a model cannot be read
    ├── AnalyzerError      an analyzer's text form does not parse, or differs from the index's
    ├── DocumentError      a document cannot be stored (bad or repeated docno)
    ├── UnknownDocument    no document has a docno (a KeyError, too)
    ├── IndexFault         an index cannot be opened, written or read
    │   ├── IndexLocked    another writer has it open
    │   └── IndexDamaged   one of its files is missing or does not match its checksum
    ├── ArgumentError      an argument has a wrong value (a ValueError, too)
    ├── ArgumentTypeError  an argument is of a wrong type (a TypeError, too)
    └── MissingExtra       an optional dependency is needed (names the extra)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_NAMED = 12  # names of many that a message has
_LONGEST_MESSAGE = 1000  # characters; messages that list what is known have up to 700


class TelerankError(Exception):
    """Base class; the message is one line written for users, its notes (PEP 678) are further lines."""


class FormatError(TelerankError):
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


class MissingVectors(UserWarning):
    """Documents of an index have no vector, so that a search of vectors does not find them."""


class UnlikelySetting(UserWarning):
    """A setting that is possible, but seldom wanted."""


class CollectionError(TelerankError):
    pass


class MeasureError(TelerankError):
    pass


class ModelError(TelerankError):
    pass


class ExpressionError(ModelError):
    pass


class AnalyzerError(TelerankError):
    pass


class DocumentError(TelerankError):
    pass


class UnknownDocument(TelerankError, KeyError):  # noqa: N818
    """No document has the docno."""

    __str__ = Exception.__str__  # a KeyError would put quotes around the message


class IndexFault(TelerankError):  # noqa: N818 — IndexError is Python’s own
    pass


class IndexLocked(IndexFault):
    pass


class IndexDamaged(IndexFault):
    pass


class ArgumentError(TelerankError, ValueError):
    pass


class ArgumentTypeError(TelerankError, TypeError):
    pass


class MissingExtra(TelerankError):  # noqa: N818
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
    by_case = {other.casefold(): other for other in names}
    if near := get_close_matches(name.casefold(), list(by_case), n=1):
        return f"did you mean {by_case[near[0]]!r}?"
    if not names:
        return "none is known"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"known: {', '.join(names[:_NAMED])}{more}"


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
