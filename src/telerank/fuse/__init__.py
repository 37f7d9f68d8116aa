"""One list of several: in turns, by scaled and weighted scores, or by ranks.

==========================  =======================  =================================================
of rankings                 of stages                what it is
==========================  =======================  =================================================
:func:`interleaved`         :func:`interleave`       in turns (RepBERT, equation 6)
:func:`scaled`              :func:`minmax`           scores brought to [0, 1] (Piaf report, equation 20)
:func:`weighted`            :func:`linear`           a weighted sum of these (equation 19)
:func:`reciprocal`          :func:`rrf`              sum of 1 / (k + rank) (Cormack et al., 2009)
==========================  =======================  =================================================

A document that a list lacks gets nothing from it. :func:`joined` puts the lists of several runs side by side.
"""

from telerank.fuse.interleave import Interleave, interleave, interleaved
from telerank.fuse.joined import joined
from telerank.fuse.linear import Aligned, linear, weighted
from telerank.fuse.minmax import MinMax, minmax, scaled
from telerank.fuse.rrf import ReciprocalRank, reciprocal, rrf

__all__ = [
    "Aligned",
    "Interleave",
    "MinMax",
    "ReciprocalRank",
    "interleave",
    "interleaved",
    "joined",
    "linear",
    "minmax",
    "reciprocal",
    "rrf",
    "scaled",
    "weighted",
]
