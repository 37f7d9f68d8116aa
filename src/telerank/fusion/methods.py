"""The fusions by name, for the command line and experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from telerank.fusion.interleave import interleave_rankings
from telerank.fusion.linear import sum_rankings
from telerank.fusion.rrf import K, sum_reciprocal_ranks
from telerank.types import Ranking


@dataclass(frozen=True)
class Fusion:
    """A method that fuses rankings of a query, with its settings.

    ``weights`` are for ``linear`` (default: equal), ``k`` for ``rrf``. Each ranking is cut to ``depth``
    first, the fused one to ``keep`` (default: ``depth``); None cuts nothing. An unknown method, or
    weights for one that takes none, raise ValueError.
    """

    method: str = "rrf"
    weights: tuple[float, ...] = ()
    k: float = K
    depth: int | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"there is no fusion {self.method!r}; known: {', '.join(METHODS)}")
        if self.weights and self.method != "linear":
            raise ValueError(f"only the fusion linear takes weights, not {self.method}")

    def __call__(self, rankings: Sequence[Ranking]) -> Ranking:
        lists = rankings if self.depth is None else [ranking.cut(self.depth) for ranking in rankings]
        fused = METHODS[self.method](self, lists)
        keep = self.keep or self.depth
        return fused if keep is None else fused.cut(keep)


METHODS: Mapping[str, Callable[[Fusion, Sequence[Ranking]], Ranking]] = {
    "interleave": lambda _, lists: interleave_rankings(lists, None),
    "linear": lambda fusion, lists: sum_rankings(lists, fusion.weights or [1 / len(lists)] * len(lists)),
    "rrf": lambda fusion, lists: sum_reciprocal_ranks(lists, fusion.k),
}
"""Each method as a function of its settings and the rankings."""
