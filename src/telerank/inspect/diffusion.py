"""Diffusion of information: how alike the outputs of a pair's tokens are (BERT-DMN, figure 3).

=================  ===================================================================================
``CLS-query``      cosines of the classifying token's output with each query token's
``CLS-passage``    cosines of the classifying token's output with each passage token's
``inner-passage``  cosines of every two different passage tokens' outputs
=================  ===================================================================================

The measure is of Goyal et al. (2020). A passage of n tokens has n (n - 1) / 2 of the last kind, 130,000 where
it fills 512 tokens; none are kept. Their mean is of closed form, from the sum of the tokens' unit vectors;
quartiles have none, and are read off a count of all cosines in 20,000 equal bins: no sample, but exact to
0.00005 only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from telerank.inspect.token_outputs import BATCH, batches, token_outputs
from telerank.models.pairs.pair import PASSAGE, QUERY, Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.types import Progress, silent

KINDS = ("CLS-query", "CLS-passage", "inner-passage")
_BINS = 20_000  # of -1 to 1
_WHISKER = 1.5  # of the distance between the quartiles (Tukey 1977)


@dataclass(frozen=True)
class Spread:
    """``count`` cosines: their mean and quartiles, and the outermost within 1.5 box lengths of the box."""

    count: int
    mean: float
    low: float
    first: float
    median: float
    third: float
    high: float


@dataclass(frozen=True)
class Diffusion:
    """``spreads`` by the names of :data:`KINDS`; ``cut`` pairs were longer than the model reads."""

    spreads: Mapping[str, Spread]
    pairs: int
    cut: int


def diffusion(
    reranker: Reranker, pairs: Sequence[Pair], *, batch_tokens: int = BATCH, progress: Progress = silent
) -> Diffusion:
    """The cosines of all pairs together, in which a pair of more tokens weighs more.

    Raises
    ------
    ModelError
        where the model has no outputs of a transformer.
    """
    tallies = {kind: _Tally() for kind in KINDS}
    found = batches(pairs, reranker.texts.pad_id, batch_tokens, what="reading pairs", progress=progress)
    for _, batch in found:
        outputs = token_outputs(reranker, batch)  # (B, L, H)
        for one, parts in zip(outputs, batch.parts, strict=True):
            add_pair(tallies, one, parts)
    spreads = {kind: tally.spread() for kind, tally in tallies.items()}
    return Diffusion(spreads, len(pairs), sum(one.cut > 0 for one in pairs))


def add_pair(tallies: Mapping[str, _Tally], outputs: Tensor, parts: Tensor) -> None:
    """Count the cosines of one pair: outputs (L, H), and whose token each is, (L,)."""
    units = normalize(outputs, dim=-1)
    query, passage = units[parts == QUERY], units[parts == PASSAGE]  # (N, H), (n, H)
    for kind, tokens in (("CLS-query", query), ("CLS-passage", passage)):
        cosines = tokens @ units[0]
        tallies[kind].add(cosines, float(cosines.double().sum()))
    cosines = passage @ passage.T  # (n, n)
    above = torch.ones_like(cosines, dtype=torch.bool).triu(1)
    tallies["inner-passage"].add(cosines[above], pairwise_sum(passage))


def pairwise_sum(units: Tensor) -> float:
    """The sum of u_i · u_j over i < j, of unit vectors (n, H): (|Σ u|² - Σ |u|²) / 2."""
    exact = units.double()
    whole = exact.sum(0)
    return float(whole @ whole - (exact * exact).sum()) / 2


@dataclass(eq=False)
class _Tally:
    """Cosines counted in bins, and their sum."""

    bins: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BINS, np.int64))
    total: float = 0.0

    def add(self, cosines: Tensor, total: float) -> None:
        place = ((cosines.clamp(-1, 1) + 1) * (_BINS / 2)).to(torch.int64).clamp(max=_BINS - 1)
        self.bins += torch.bincount(place, minlength=_BINS).numpy()
        self.total += total

    def spread(self) -> Spread:
        count = int(self.bins.sum())
        if not count:
            return Spread(0, *[math.nan] * 6)
        first, median, third = (self._quantile(share, count) for share in (0.25, 0.5, 0.75))
        reach = _WHISKER * (third - first)
        seen = _middle(np.flatnonzero(self.bins))
        low = seen[seen >= first - reach].min()
        high = seen[seen <= third + reach].max()
        return Spread(count, self.total / count, float(low), first, median, third, float(high))

    def _quantile(self, share: float, count: int) -> float:
        """The least cosine that a ``share`` of them does not pass."""
        place = np.searchsorted(np.cumsum(self.bins), math.ceil(share * count))
        return float(_middle(place))


def _middle(place: Any) -> Any:
    return (place + 0.5) * (2 / _BINS) - 1
