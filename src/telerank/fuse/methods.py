"""The fusions by name, for the command line and experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from telerank.fuse.interleave import interleave, interleave_rankings
from telerank.fuse.linear import linear, sum_rankings
from telerank.fuse.rrf import K, rrf, sum_reciprocal_ranks
from telerank.stage import Stage
from telerank.types import Ranking

Fusion: TypeAlias = Callable[[Sequence[Ranking]], Ranking]

METHODS = ("interleave", "linear", "rrf")


def make_fusion(method: str, weights: Sequence[float] = (), *, k: float = K) -> Fusion:
    """The function that fuses several rankings into one, uncut; only ``linear`` takes weights.

    Raises
    ------
    KeyError
        If there is no such method.
    """
    fusions: dict[str, Fusion] = {
        "interleave": lambda lists: interleave_rankings(lists, None),
        "linear": lambda lists: sum_rankings(lists, weights),
        "rrf": lambda lists: sum_reciprocal_ranks(lists, k),
    }
    return fusions[method]


def make_fusion_stage(
    method: str, stages: Sequence[Stage], weights: Sequence[float] = (), *, k: float = K
) -> Stage:
    """The stage that fuses the lists of these stages, uncut.

    Raises
    ------
    KeyError
        If there is no such method.
    """
    makers: dict[str, Callable[[], Stage]] = {
        "interleave": lambda: interleave(*stages, depth=None),
        "linear": lambda: linear(*stages, weights=weights),
        "rrf": lambda: rrf(*stages, k=k),
    }
    return makers[method]()
