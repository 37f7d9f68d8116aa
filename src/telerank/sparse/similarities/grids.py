"""The settings of each similarity that tuning tries."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from telerank.sparse.similarities.bm25 import BM25
from telerank.sparse.similarities.dfi import DFI, INDEPENDENCE
from telerank.sparse.similarities.dfr import BASIC_MODELS, DFR, H1, H2, H3, NoNormalization, Normalization, Z
from telerank.sparse.similarities.lm import LMDirichlet, LMJelinekMercer

if TYPE_CHECKING:
    from telerank.sparse.similarities.base import Similarity

_NORMALIZATIONS: tuple[Normalization, ...] = (
    *(H1(), H2(0.5), H2(1), H2(2), H2(5)),
    *(H3(), Z(), NoNormalization()),
)
_GRIDS: dict[type[Similarity], tuple[Similarity, ...]] = {
    BM25: tuple(
        BM25(k1, b)
        for k1, b in product(
            (0.3, 0.6, 0.9, 1.2, 1.5, 2, 3, 4), (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1)
        )
    ),
    LMDirichlet: tuple(
        LMDirichlet(mu)
        for mu in (10, 25, 50, 100, 200, 300, 500, 700, 1000, 1500, 2000, 2500, 3000, 4000, 5000)
    ),
    LMJelinekMercer: tuple(
        LMJelinekMercer(share)
        for share in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    ),
    # without an after-effect only with H2: Lucene 8 has dropped it
    DFR: (
        *(DFR(*parts) for parts in product(BASIC_MODELS, ("l", "b"), _NORMALIZATIONS)),
        *(DFR(basic, "none", H2(1)) for basic in BASIC_MODELS),
    ),
    DFI: tuple(DFI(measure) for measure in INDEPENDENCE),
}


def make_grid(model: Similarity) -> tuple[Similarity, ...]:
    """The settings of a similarity's family in the ranges of the literature, at most 80."""
    return _GRIDS[type(model)]
