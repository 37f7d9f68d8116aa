"""What all re-rankers on a transformer share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import token_types
from telerank.models.loading import check_encodes, read_tokenizer
from telerank.models.pairs.pair import PairBatch, PairTokenizer
from telerank.models.rerankers.kinds import Shape


class TwoStepModel(nn.Module, ABC):
    """A model of pairs in two steps: a transformer, which a graph back end can replace, and what follows it.

    ``pooled`` says that :meth:`transformer` gives one vector for each pair, not one for each token.
    """

    pooled: bool

    @property
    @abstractmethod
    def last_layers(self) -> nn.Module | None:
        """The layers of :meth:`finish`, which always compute in float32; None if it has none."""

    @abstractmethod
    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> what :meth:`finish` reads: (B, L, H), or (B, H) if ``pooled``."""

    @abstractmethod
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:
        """Outputs of :meth:`transformer` -> logits in float32, (B,) or for each token."""

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> logits."""
        outputs = self.transformer(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        return self.finish(outputs, batch)


class TransformerRanker(TwoStepModel, ABC):
    """A re-ranker: a transformer, and layers on its outputs that give each pair a logit, (B,)."""

    @abstractmethod
    def token_outputs(self, batch: PairBatch) -> Tensor:
        """The last hidden state of each token, (B, L, H)."""


def inputs_of(
    transformer: nn.Module, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
) -> dict[str, Any]:
    """The arguments of a transformer: token types only if it tells them apart."""
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
    return inputs | ({"token_type_ids": token_type_ids} if token_types(transformer) > 1 else {})


def read_pair_tokenizer(folder: Path, model: TransformerRanker, shape: Shape) -> PairTokenizer:
    """The tokenizer of a folder, for pairs of the lengths of ``shape``.

    Raises ModelError if the model has fewer positions or cannot compute a text's tokens, or the lengths leave
    no room for a passage.
    """
    check_length(model, shape.max_length, f"{folder}: ")
    tokenizer = read_tokenizer(folder)
    check_encodes(folder, tokenizer, lambda ids, mask: model.transformer(ids, mask, torch.zeros_like(ids)))
    return PairTokenizer(tokenizer, max_query=shape.max_query, max_length=shape.max_length)


def check_length(model: nn.Module, length: int, prefix: str = "") -> None:
    """Raise ModelError if a model has fewer positions than ``length``."""
    longest = positions(model)
    if longest is not None and length > longest:
        raise ModelError(f"{prefix}pairs of {length} tokens, but the model has {longest} positions")


def positions(model: nn.Module) -> int | None:
    """The length of its table of absolute positions, less those reserved for padding; None without a table.

    RoBERTa and its descendants number positions from after the padding's number: their 514 hold 512 tokens.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    return None
