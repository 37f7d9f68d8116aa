"""The encoder of a feature store: pairs of texts to tokens, tokens to features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from telerank.models.pairs.features import PairFeatures
from telerank.models.pairs.pair import Pair, PairTexts, batch_of
from telerank.models.rerankers.encoder_ranker import EncoderRanker
from telerank.reranking.texts import TextPair, TokenizedPairs, tokenize_pairs
from telerank.types import Progress, silent


class PairEncoder(Protocol):
    """Computes the features of pairs."""

    @property
    def fingerprint(self) -> str:
        """The identity of everything that decides a feature."""

    @property
    def width(self) -> int:
        """``H``."""

    def tokens(self, pairs: Sequence[TextPair], progress: Progress = silent) -> TokenizedPairs:
        """The tokens of pairs, cut and joined."""

    def features(self, pairs: Sequence[Pair]) -> PairFeatures:
        """The features of a batch; the same in every mode of the model."""


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """The encoder of ``model``.

    Sentences are split by the rules of ``language``, even for a head that does not read them, so that a store
    serves every head. ``precision`` makes the context in which the encoder runs.
    """

    model: EncoderRanker
    texts: PairTexts
    fingerprint: str
    language: str = "en"
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext

    @property
    def width(self) -> int:
        return self.model.width

    def tokens(self, pairs: Sequence[TextPair], progress: Progress = silent) -> TokenizedPairs:
        """The tokens of pairs, cut and joined."""
        return tokenize_pairs(self.texts, pairs, self.language, progress)

    def features(self, pairs: Sequence[Pair]) -> PairFeatures:
        """The features of a batch, without dropout, in float32."""
        device = next(self.model.parameters()).device
        batch = batch_of(pairs, self.texts.pad_id).to(device)
        with _evaluating(self.model.encoder), torch.no_grad(), self.precision():
            return self.model.features(batch)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    mode = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(mode)
