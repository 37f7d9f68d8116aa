"""Fuse several rankings into one: in turns, by scaled and weighted scores, or by ranks.

=============================  ====================  =================================================
rankings                       stages                method
=============================  ====================  =================================================
:func:`interleave_rankings`    :func:`interleave`    in turns (RepBERT, equation 6)
:func:`scale_scores`           :func:`minmax`        scores scaled to [0, 1] (Piaf report, equation 20)
:func:`sum_rankings`           :func:`linear`        a weighted sum of scaled scores (equation 19)
:func:`sum_reciprocal_ranks`   :func:`rrf`           sum of 1 / (k + rank) (Cormack et al., 2009)
=============================  ====================  =================================================

:func:`prob` and :func:`softmax` make probabilities of a re-ranker's scores. A document that is not in a list
gets 0 from it. :func:`within` ranks the documents of one stage by another.
:func:`join_runs` pairs the rankings of several runs.
"""

from telerank.fusion.lists import (
    interleave_rankings,
    join_runs,
    scale_scores,
    sum_rankings,
    sum_reciprocal_ranks,
)
from telerank.fusion.stages import (
    Interleave,
    ReciprocalRank,
    interleave,
    linear,
    minmax,
    prob,
    rrf,
    softmax,
    within,
)

__all__ = [
    "Interleave",
    "ReciprocalRank",
    "interleave",
    "interleave_rankings",
    "join_runs",
    "linear",
    "minmax",
    "prob",
    "rrf",
    "scale_scores",
    "softmax",
    "sum_rankings",
    "sum_reciprocal_ranks",
    "within",
]
