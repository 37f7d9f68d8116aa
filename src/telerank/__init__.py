"""telerank: text ranking in stages, and the measuring of every stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from telerank.stage import Stage
from telerank.types import Answer, Doc, Explanation, Qrel, Query, Ranking

if TYPE_CHECKING:
    from telerank.retrieval.index import Index

__version__ = "0.1.0"

__all__ = ["Answer", "Doc", "Explanation", "Qrel", "Query", "Ranking", "Stage", "open"]


def open(folder: str | Path) -> Index:  # noqa: A001 — telerank.open reads as it should
    """The index in a folder (see :class:`telerank.retrieval.index.Index`)."""
    from telerank.retrieval.index import Index

    return Index(folder)
