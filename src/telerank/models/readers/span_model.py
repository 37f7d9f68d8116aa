"""A reader's model in the two steps that back ends compute."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32
from telerank.models.rerankers.transformer_ranker import TwoStepModel, inputs_of

_LAYER = "qa_outputs"
"""The name of the layer that gives the logits, in most architectures."""


class SpanModel(TwoStepModel):
    """The logits of starts and ends, (B, L, 2), from transformers' model ``reader``.

    Its last layer computes in float32, within ``bfloat16``, too.
    """

    pooled = False

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self.reader = reader

    @property
    def last_layers(self) -> nn.Linear | None:
        layer = getattr(self.reader, _LAYER, None)
        return layer if isinstance(layer, nn.Linear) and layer.out_features == 2 else None

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of windows, each (B, L) -> what the last layer reads, (B, L, H).

        If an architecture names that layer otherwise: its logits, (B, L, 2).
        """
        inputs = inputs_of(self.reader, input_ids, attention_mask, token_type_ids)
        layer, read = self.last_layers, list[Tensor]()
        if layer is None:
            outputs = self.reader(**inputs)
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)

        exact = layer.weight.dtype  # which may be more exact than what comes before

        def take(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            read.append(given[0])
            return (given[0].to(exact),)

        hook = layer.register_forward_pre_hook(take)
        try:
            self.reader(**inputs)
        finally:
            hook.remove()
        return read[0]

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every model
        layer = self.last_layers
        logits: Tensor = outputs.float() if layer is None else layer(outputs.float())
        return logits
