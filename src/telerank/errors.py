"""Every exception that telerank raises for its user, as one tree.

::

    TelerankError
    ├── FormatError        a file says what its format does not allow (names file, line, what was expected)
    ├── CollectionError    a collection cannot be found, recognised, or lacks what was asked of it
    ├── MeasureError       a measure's name does not parse, or it cannot be computed as asked
    ├── ModelError         a model cannot be opened, or a parameter is out of range
    │   └── ExpressionError  the text of a pipeline or of a model cannot be read
    ├── AnalyzerError      an analyzer's text form does not parse, or is not the index's own
    ├── DocumentError      a document that cannot be stored (empty or blank docno, a docno twice)
    ├── IndexFault         an index cannot be opened, written or read
    │   ├── IndexLocked    another writer holds it
    │   └── IndexDamaged   a file of it is missing or is not what its checksum says
    └── MissingExtra       an optional dependency is needed (names the extra)
"""

from __future__ import annotations

from pathlib import Path


class TelerankError(Exception):
    """Root of the tree; its message is one line fit for a user's eyes."""


class FormatError(TelerankError):
    """A file that does not follow its format: ``where:line: expected …, got …``."""

    def __init__(self, where: str | Path, line: int | None, expected: str, got: str | None = None) -> None:
        place = str(where) if line is None else f"{where}:{line}"
        tail = "" if got is None else f", got {_shorten(got)}"
        super().__init__(f"{place}: expected {expected}{tail}")
        self.where, self.line, self.expected, self.got = where, line, expected, got

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.where, self.line, self.expected, self.got)


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


class IndexFault(TelerankError):  # noqa: N818 — IndexError is Python’s own
    pass


class IndexLocked(IndexFault):
    pass


class IndexDamaged(IndexFault):
    pass


class MissingExtra(TelerankError):  # noqa: N818
    """An optional dependency is absent."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"this needs the package {module!r}: pip install 'telerank[{extra}]'")
        self.module, self.extra = module, extra

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.module, self.extra)


def _shorten(text: str, width: int = 80) -> str:
    shown = repr(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"
