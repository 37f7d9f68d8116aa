"""telerank: text ranking in stages, and the measuring of every stage."""

from telerank.types import Answer, Doc, Explanation, Qrel, Query, Ranking
from telerank.stage import Stage

__version__ = "0.1.0"

__all__ = ["Answer", "Doc", "Explanation", "Qrel", "Query", "Ranking", "Stage", "open"]


def open(path):  # noqa: A001 — telerank.open reads as it should
    """The index in the folder ``path``."""
    from telerank.sparse.index import Index

    return Index.open(path)
