"""Diffusion of information: how similar the outputs of a pair's tokens are (BERT-DMN, figure 3).

=================  ===================================================================================
``CLS-query``      cosines of the classifying token's output with that of each query token
``CLS-passage``    cosines of the classifying token's output with that of each passage token
``inner-passage``  cosines of the outputs of every two different passage tokens
=================  ===================================================================================

The measure is that of Goyal et al. (2020). A passage of n tokens has n (n - 1) / 2 cosines of the last kind,
130,000 if it fills 512 tokens; none are kept. Their mean has a closed form, from the sum of the tokens' unit
vectors; quartiles come from a histogram of all cosines with 20,000 equal bins, exact to 0.00005.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from telerank.errors import count_noun
from telerank.inspect.drawn_pairs import (
    BATCH,
    JudgedPair,
    compute_token_outputs,
    describe_cut,
    iterate_batches,
    open_checkpoints,
    tokenize_drawn,
)
from telerank.models.pairs.pair import PASSAGE, QUERY, Pair
from telerank.models.rerankers.reranker import Reranker
from telerank.show.plots import COLOURS, new_figure, place_in_groups
from telerank.show.report import Report
from telerank.show.tables import Table
from telerank.types import Progress, silent

KINDS = ("CLS-query", "CLS-passage", "inner-passage")
_BINS = 20_000  # from -1 to 1
_MIDDLES = (np.arange(_BINS) + 0.5) * (2 / _BINS) - 1
_BOX = {"whislo": "low", "q1": "first", "med": "median", "mean": "mean", "q3": "third", "whishi": "high"}
_DIAMOND = {"marker": "D", "markersize": 4, "markerfacecolor": "white"}
_SHOWN = attrgetter("count", "mean", "first", "median", "third")
_WHISKER = 1.5  # of the distance between the quartiles (Tukey 1977)


@dataclass(frozen=True)
class Spread:
    """``count`` cosines: mean, quartiles, and the least and greatest within 1.5 box lengths of the box."""

    count: int
    mean: float
    low: float
    first: float
    median: float
    third: float
    high: float


@dataclass(frozen=True)
class Diffusion:
    """``spreads`` by the names of :data:`KINDS`; ``cut`` of the pairs were longer than the model reads."""

    spreads: Mapping[str, Spread]
    pairs: int
    cut: int


@dataclass(frozen=True, eq=False)
class DiffusionReport(Report):
    """The diffusion of each checkpoint by its short name; ``drawn`` says which pairs were measured."""

    title: ClassVar[str] = "Diffusion"
    checkpoints: Mapping[str, Diffusion]
    drawn: Mapping[str, object]

    def tables(self) -> list[Table]:
        """A row for each kind of cosines and each checkpoint."""
        rows = [
            (kind, name, *_SHOWN(model.spreads[kind]))
            for kind in KINDS
            for name, model in self.checkpoints.items()
        ]
        pairs = count_noun(next(iter(self.checkpoints.values())).pairs, "pair")
        return [
            Table.of(
                ("cosines", "model", "number", "mean", "25 %", "median", "75 %"),
                rows,
                caption=f"Diffusion of information in {pairs} of {self.drawn['collection']}",
                left=2,
            )
        ]

    @property
    def remarks(self) -> list[str]:
        return [
            line
            for name, model in self.checkpoints.items()
            for line in describe_cut(model.cut, model.pairs, name)
        ]

    def record(self) -> dict[str, object]:
        return {
            **self.drawn,
            "checkpoints": {name: asdict(checkpoint) for name, checkpoint in self.checkpoints.items()},
        }

    def plot(self) -> Figure:
        """Boxes of the three kinds of cosines, one for each checkpoint."""
        return diffusion_plot({name: own.spreads for name, own in self.checkpoints.items()})


def diffusion_plot(checkpoints: Mapping[str, Mapping[str, Spread]]) -> Figure:
    """Boxes of the three kinds of cosines, one for each checkpoint: quartiles, and a diamond at the mean."""
    kinds = list(next(iter(checkpoints.values())))
    with new_figure(7.0, 3.8) as figure:
        panel: Any = figure.subplots()
        handles = []
        for i, spreads in enumerate(checkpoints.values()):
            positions, width = place_in_groups(panel, kinds, i, len(checkpoints))
            colour = COLOURS[i % len(COLOURS)]
            drawn = panel.bxp(
                [{name: getattr(spread, own) for name, own in _BOX.items()} for spread in spreads.values()],
                positions=positions,
                widths=0.85 * width,
                showfliers=False,
                showmeans=True,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": f"{colour}40", "edgecolor": colour, "linewidth": 1.3},
                medianprops={"color": colour, "linewidth": 2.2},
                meanprops={**_DIAMOND, "markeredgecolor": colour},
                whiskerprops={"color": colour, "linewidth": 1.3},
                capprops={"color": colour, "linewidth": 1.3},
            )
            handles.append(drawn["boxes"][0])
        panel.set_xlim(-0.5, len(kinds) - 0.5)
        panel.set_ylabel("cosine")
        figure.legend(handles, list(checkpoints), loc="outside lower center", ncols=4)
    return figure


def compare_diffusion(
    models: Sequence[str],
    drawn: Sequence[JudgedPair],
    *,
    batch_tokens: int = BATCH,
    device: str = "cpu",
    progress: Progress = silent,
) -> dict[str, Diffusion]:
    """Measure several checkpoints on the same pairs; the results by the models' short names."""
    return {
        name: measure_diffusion(
            reranker, tokenize_drawn(reranker, drawn), batch_tokens=batch_tokens, progress=progress
        )
        for name, reranker in open_checkpoints(models, device)
    }


def measure_diffusion(
    reranker: Reranker, pairs: Sequence[Pair], *, batch_tokens: int = BATCH, progress: Progress = silent
) -> Diffusion:
    """Count the cosines of all pairs together, so that a pair with more tokens weighs more.

    Raises
    ------
    ModelError
        If the model has no outputs of a transformer.
    """
    counts = {kind: _CosineCounts() for kind in KINDS}
    for _, batch in iterate_batches(pairs, reranker.texts.pad_id, batch_tokens, progress):
        outputs = compute_token_outputs(reranker, batch)  # (B, L, H)
        for pair_outputs, parts in zip(outputs, batch.parts, strict=True):
            units = normalize(pair_outputs, dim=-1)  # (L, H)
            query, passage = units[parts == QUERY], units[parts == PASSAGE]  # (N, H), (n, H)
            for kind, tokens in (("CLS-query", query), ("CLS-passage", passage)):
                cosines = tokens @ units[0]
                counts[kind].add(cosines, float(cosines.double().sum()))
            cosines = passage @ passage.T  # (n, n)
            above = torch.ones_like(cosines, dtype=torch.bool).triu(1)
            exact = passage.double()
            whole = exact.sum(0)  # the sum of u_i · u_j over i < j is (|Σ u|² - Σ |u|²) / 2
            total = float(whole @ whole - (exact * exact).sum()) / 2
            counts["inner-passage"].add(cosines[above], total)
    return Diffusion(
        {kind: cosines.spread() for kind, cosines in counts.items()},
        len(pairs),
        sum(pair.cut > 0 for pair in pairs),
    )


@dataclass(eq=False)
class _CosineCounts:
    """A histogram of cosines, and their sum."""

    bins: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BINS, np.int64))
    total: float = 0.0

    def add(self, cosines: Tensor, total: float) -> None:
        numbers = ((cosines.clamp(-1, 1) + 1) * (_BINS / 2)).to(torch.int64).clamp(max=_BINS - 1)
        self.bins += torch.bincount(numbers, minlength=_BINS).numpy()
        self.total += total

    def spread(self) -> Spread:
        count = int(self.bins.sum())
        if not count:
            return Spread(0, *[math.nan] * 6)
        # a quantile: the least cosine that at least a share of them does not exceed
        numbers = np.ceil(np.array([0.25, 0.5, 0.75]) * count)
        first, median, third = _MIDDLES[np.searchsorted(np.cumsum(self.bins), numbers)].tolist()
        reach = _WHISKER * (third - first)
        values = _MIDDLES[self.bins > 0]
        low = values[values >= first - reach].min()
        high = values[values <= third + reach].max()
        return Spread(count, self.total / count, float(low), first, median, third, float(high))
