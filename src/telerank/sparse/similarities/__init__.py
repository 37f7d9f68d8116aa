"""Ranking models over one index; their interface and notation: :mod:`telerank.sparse.similarities.base`."""

from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.dfr import DFR, H1, H2, H3, NoNormalization, Normalization, Z
from telerank.sparse.similarities.families import make_grid, parse_similarity
from telerank.sparse.similarities.models import BM25, DFI, LMDirichlet, LMJelinekMercer

__all__ = [
    "BM25",
    "DFI",
    "DFR",
    "H1",
    "H2",
    "H3",
    "LMDirichlet",
    "LMJelinekMercer",
    "NoNormalization",
    "Normalization",
    "Similarity",
    "Statistics",
    "Z",
    "make_grid",
    "parse_similarity",
]
