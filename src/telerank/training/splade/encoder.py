"""A sparse encoder that learns, and what keeps its vectors sparse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from telerank.models.encoders.sparse import SparseSide, StaticPieces, hold_pieces
from telerank.models.encoders.sparse_folders import save_sparse
from telerank.training.encoders.encoder import EncoderSide, TrainableEncoder
from telerank.training.splade.config import RegulariserSettings, SideRegulariser

_TOKENS = 1024  # of a batch of dev: a logit for each piece of the vocabulary takes 4 bytes
_TABLE = "pieces"


class LearnedPieces(nn.Module):
    """One weight for each piece, max(0, rate * table): it learns ``rate`` times as fast as others.

    Adam's steps do not depend on the size of a gradient, so a factor in front of what it updates is a factor
    of its rate.
    """

    def __init__(self, weight: Tensor, rate: float) -> None:
        super().__init__()
        self.rate, self.table = rate, nn.Parameter(weight.detach() / rate)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Tokens and their mask, both (B, L) -> weights (B, V)."""
        return hold_pieces(input_ids, attention_mask, len(self.table)) * self.weight

    @property
    def weight(self) -> Tensor:
        """The weights as they are now, (V,)."""
        return torch.relu(self.table * self.rate)


def flops(weights: Tensor) -> Tensor:
    """The squares of the mean weights of all terms, summed: (B, V) -> a number (Paria et al. 2020)."""
    return weights.mean(0).square().sum()


def l1(weights: Tensor) -> Tensor:
    """The mean sum of a text's weights: (B, V) -> a number."""
    return weights.abs().sum(1).mean()


@dataclass(frozen=True)
class Regulariser:
    """What is added to the loss of a batch; its factors rise during the first ``warm_up`` updates."""

    settings: RegulariserSettings
    warm_up: int
    of_queries: bool = True

    @classmethod
    def of(cls, settings: RegulariserSettings, updates: int, *, of_queries: bool = True) -> Regulariser:
        """The regulariser of a training of so many updates."""
        warm_up = settings.warm_up
        count = int(warm_up * updates) if isinstance(warm_up, float) else warm_up
        return cls(settings, count, of_queries)

    def __call__(self, queries: Tensor, documents: Tensor, update: int) -> Tensor:
        """Weights (Q, V) and (N, V), at an update, counted from 0 -> a number."""
        factor = self.factor(update)
        penalty = _penalise(self.settings.documents, documents)
        if self.of_queries:
            penalty = penalty + _penalise(self.settings.queries, queries)
        return factor * penalty

    def factor(self, update: int) -> float:
        """The share of the full weights at an update, counted from 0, up to 1."""
        if update >= self.warm_up:
            return 1.0
        return float((update / self.warm_up) ** (2 if self.settings.rise == "quadratic" else 1))


def _penalise(settings: SideRegulariser, weights: Tensor) -> Tensor:
    if settings.threshold:
        counts = (weights != 0).sum(1, keepdim=True) > settings.threshold
        weights = weights * counts
    return settings.weight * (flops if settings.kind == "flops" else l1)(weights)


class SparseLearner(TrainableEncoder):
    """Two sides of sparse vectors that learn; they may have the same encoder."""

    def __init__(
        self, queries: SparseSide, documents: SparseSide, regulariser: Regulariser | None = None
    ) -> None:
        self.sides = queries, documents
        self.module = nn.ModuleList(dict.fromkeys(side.model for side in self.sides))
        self.queries, self.documents = map(encoder_side, self.sides)
        self._regulariser = regulariser

    def penalty(self, queries: Tensor, documents: Tensor, update: int) -> Tensor | None:
        return None if self._regulariser is None else self._regulariser(queries, documents, update)

    def count_terms(self, vectors: Tensor) -> Tensor:
        return (vectors > 0).sum(0)

    def save(self, folder: Path) -> None:
        queries, documents = self.sides
        save_sparse(_as_saved(queries), _as_saved(documents), folder)

    def state(self) -> Mapping[str, Tensor]:
        """The weights of pieces before they are cut off at 0."""
        pieces = self._pieces
        return {} if pieces is None else {_TABLE: pieces.table.detach()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pieces = self._pieces
        if pieces is not None:
            with torch.no_grad():
                pieces.table.copy_(state[_TABLE])

    @property
    def _pieces(self) -> LearnedPieces | None:
        model = self.sides[0].model
        return model if isinstance(model, LearnedPieces) else None


def encoder_side(side: SparseSide) -> EncoderSide:
    """What the task needs of a side."""
    tokenizer = side.tokenizer
    return EncoderSide(
        lambda texts: side.tokenize(texts)[0],
        tokenizer.pad,
        lambda batch: side.model(**batch),
        tokenizer.side.max_length,
        _TOKENS,
    )


def _as_saved(side: SparseSide) -> SparseSide:
    if not isinstance(side.model, LearnedPieces):
        return side
    return replace(side, model=StaticPieces(side.model.weight.detach()))
