"""Ranking models over one index; their interface and notation: :mod:`telerank.sparse.similarities.base`."""

from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.bm25 import BM25

__all__ = ["BM25", "Similarity", "Statistics"]
