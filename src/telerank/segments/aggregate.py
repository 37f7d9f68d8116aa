"""How the scores of segments become the score of a document.

The score of a document is a weighted sum of the scores of its segments, whose weights depend on the ranks:

=========  ==========================================================================================
``first``  the first segment's score: FirstP (Dai and Callan 2019)
``max``    the best segment's: MaxP
``mean``   the mean over all segments (the sum in Piaf's equation 21)
``sum``    the sum: SumP
``kmax``   the mean of the ``k`` best; of all, if there are fewer
``best``   the sum of the best, times ``weights``: the sentences of Birch (Piaf report, equation 10)
=========  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from telerank.fusion.lists import sigmoid
from telerank.types import Scores

Unit: TypeAlias = Literal["logit", "probability"]
"""What is aggregated: a model's logits, or their sigmoids."""


@dataclass(frozen=True)
class Aggregate:
    """One of the table above; a value.

    Raises
    ------
    ValueError
        If there is no such aggregate, k is not a whole number of at least 1, or a weight is not finite.
    """

    kind: str
    k: int = 1
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in _WEIGHTS:
            raise ValueError(f"no aggregate is called {self.kind!r}; there are: {', '.join(_WEIGHTS)}")
        if self.k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {self.k!r}")
        if (self.kind == "best") != bool(self.weights) or not all(map(math.isfinite, self.weights)):
            raise ValueError(
                f"{self.kind!r}: expected a finite weight for each of the best, got {self.weights}"
            )

    def __call__(self, scores: Scores) -> float:
        """The score of a document from those of its segments, (segments,); at least one."""
        return math.fsum((self.weigh(scores) * scores).tolist())  # rounded once: in any order the same

    def weigh(self, scores: Scores) -> Scores:
        """The weight of each segment's score in that of the document, (segments,)."""
        ranks = np.empty(len(scores), np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(
            len(scores)
        )  # of equal scores the first is best
        return _WEIGHTS[self.kind](self, ranks)

    @property
    def reads(self) -> int | None:
        """How many leading segments decide the score; None: all of them."""
        return 1 if self.kind == "first" else None


def _weigh_best(aggregate: Aggregate, ranks: np.ndarray) -> Scores:
    weights = np.zeros(max(len(ranks), len(aggregate.weights)))
    weights[: len(aggregate.weights)] = aggregate.weights
    own: Scores = weights[ranks]
    return own


def _weigh_kmax(aggregate: Aggregate, ranks: np.ndarray) -> Scores:
    kept = min(aggregate.k, len(ranks))
    weights: Scores = (ranks < kept) / kept
    return weights


_WEIGHTS: Mapping[str, Callable[[Aggregate, np.ndarray], Scores]] = {
    "first": lambda _, ranks: (np.arange(len(ranks)) == 0).astype(np.float64),
    "max": lambda _, ranks: (ranks == 0).astype(np.float64),
    "mean": lambda _, ranks: np.full(len(ranks), 1 / len(ranks)),
    "sum": lambda _, ranks: np.ones(len(ranks)),
    "kmax": _weigh_kmax,
    "best": _weigh_best,
}


def convert(logits: Scores, unit: Unit) -> Scores:
    """The logits, or their sigmoids (Piaf report, equation 15)."""
    return logits if unit == "logit" else sigmoid(logits)
