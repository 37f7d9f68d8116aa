"""Ranking models over one index; their interface and notation: :mod:`telerank.sparse.similarities.base`."""

from telerank.sparse.similarities.base import Similarity, Statistics
from telerank.sparse.similarities.bm25 import BM25
from telerank.sparse.similarities.dfi import DFI
from telerank.sparse.similarities.dfr import DFR, H1, H2, H3, NoNormalization, Normalization, Z
from telerank.sparse.similarities.grids import make_grid
from telerank.sparse.similarities.lm import LMDirichlet, LMJelinekMercer
from telerank.sparse.similarities.text_form import parse_similarity

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
