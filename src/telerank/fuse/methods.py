"""The fusions by name, as the command line and recipes call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from telerank.fuse.interleave import interleave, interleaved
from telerank.fuse.linear import linear, weighted
from telerank.fuse.rrf import K, reciprocal, rrf
from telerank.stage import Stage
from telerank.types import Ranking

Fusion: TypeAlias = Callable[[Sequence[Ranking]], Ranking]

METHODS = ("interleave", "linear", "rrf")


def fusion_of(method: str, weights: Sequence[float] = (), *, k: float = K) -> Fusion:
    """What makes one ranking of several, uncut; only ``linear`` asks for weights.

    Raises
    ------
    KeyError
        where there is no such method.
    """
    fusions: dict[str, Fusion] = {
        "interleave": lambda lists: interleaved(lists, None),
        "linear": lambda lists: weighted(lists, weights),
        "rrf": lambda lists: reciprocal(lists, k),
    }
    return fusions[method]


def stage_of(method: str, stages: Sequence[Stage], weights: Sequence[float] = (), *, k: float = K) -> Stage:
    """The stage that fuses what these find, uncut.

    Raises
    ------
    KeyError
        where there is no such method.
    """
    makers: dict[str, Callable[[], Stage]] = {
        "interleave": lambda: interleave(*stages, depth=None),
        "linear": lambda: linear(*stages, weights=weights),
        "rrf": lambda: rrf(*stages, k=k),
    }
    return makers[method]()
