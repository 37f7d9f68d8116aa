"""An encoder with a head: BERT and BERT-DMN, fine-tuned or "lite", and the Piaf report's rankers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from telerank.models.encoders.bi_encoder import token_types, width
from telerank.models.pairs.features import PairFeatures, pair_features
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32


class EncoderRanker(nn.Module):
    """The relevance of a passage to a query is what ``head`` makes of the encoder's outputs for the pair.

    ``encoder`` is any of transformers that gives ``last_hidden_state``; ``head`` maps :class:`PairFeatures`
    to logits, (B,). A ``frozen`` encoder is not trained, and stays in evaluation mode: no dropout in it,
    whatever the mode of the rest (BERT-DMN, section 5.1).
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, *, frozen: bool = False) -> None:
        super().__init__()
        self.encoder, self.head, self.frozen = encoder, head, frozen
        if frozen:
            encoder.requires_grad_(False)
        self.train(self.training)

    @property
    def width(self) -> int:
        """``H``."""
        return width(self.encoder)

    def train(self, mode: bool = True) -> EncoderRanker:
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> outputs, (B, L, H)."""
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_types(self.encoder) > 1:
            inputs["token_type_ids"] = token_type_ids
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:
        """What :meth:`transformer` gave -> logits, (B,)."""
        logits: Tensor = self.head(self._read(outputs, batch))
        return logits

    def features(self, batch: PairBatch) -> PairFeatures:
        """What the head sees: what is stored of a frozen encoder."""
        outputs = self.transformer(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        return self._read(outputs, batch)

    @in_float32
    def _read(self, outputs: Tensor, batch: PairBatch) -> PairFeatures:
        return pair_features(outputs.float(), batch)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> logits, (B,)."""
        outputs = self.transformer(batch.input_ids, batch.attention_mask, batch.token_type_ids)
        return self.finish(outputs, batch)
