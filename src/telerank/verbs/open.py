"""Opening an index."""

from __future__ import annotations

from pathlib import Path

from telerank.retrieval.index import Index


def open(folder: str | Path) -> Index:  # noqa: A001 — telerank.open reads as it should
    """The index in a folder, or the vectors in one; raises as :class:`~telerank.retrieval.index.Index`."""
    return Index(folder)
