"""Opening an index, or whatever a path holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from telerank.retrieval.index import Index

if TYPE_CHECKING:
    from telerank.corpus.collection import Collection


def open(folder: str | Path) -> Index:  # noqa: A001 — telerank.open reads as it should
    """The index in a folder, or the vectors in one; raises as :class:`~telerank.retrieval.index.Index`."""
    return Index(folder)


def open_source(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    encoding: str = "utf-8",
) -> Index | Collection:
    """The index in a folder, or else the collection at a path or of an id, as ``telerank.collection``."""
    if format is None and (Path(path) / "segments").is_dir():
        return Index(path)
    from telerank.corpus.formats import open_collection

    return open_collection(path, format=format, encoding=encoding)
