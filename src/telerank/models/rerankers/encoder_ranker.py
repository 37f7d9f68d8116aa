"""An encoder with a head: BERT and BERT-DMN, fine-tuned or "lite", and the Piaf report's rankers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import width
from telerank.models.loading import read_encoder
from telerank.models.pairs.features import PairFeatures, pair_features
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import (
    Dropout,
    Loaded,
    ModelParts,
    RerankerKind,
    Shape,
    Vocabulary,
    build,
)
from telerank.models.rerankers.transformer_ranker import TransformerRanker, inputs_of, read_pair_tokenizer

HEAD = "head.safetensors"


class EncoderRanker(TransformerRanker):
    """The relevance of a passage to a query is what ``head`` makes of the encoder's outputs for the pair.

    ``encoder`` is any of transformers that gives ``last_hidden_state``; ``head`` maps :class:`PairFeatures`
    to logits, (B,). A head that reads the first token's output alone is ``pooled``: the transformer then
    gives that output, (B, H). A ``frozen`` encoder is not trained, and stays in evaluation mode: no dropout
    in it, whatever the mode of the rest (BERT-DMN, section 5.1).
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, *, pooled: bool = False, frozen: bool = False
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.pooled, self.frozen = encoder, head, pooled, frozen
        if frozen:
            encoder.requires_grad_(False)
        self.train(self.training)

    @property
    def width(self) -> int:
        """``H``."""
        return width(self.encoder)

    @property
    def last_layers(self) -> nn.Module:
        return self.head

    def train(self, mode: bool = True) -> EncoderRanker:
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        outputs = self._encode(input_ids, attention_mask, token_type_ids)
        return outputs[:, 0] if self.pooled else outputs

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:
        outputs = outputs.float()
        features = PairFeatures.of_first(outputs) if self.pooled else pair_features(outputs, batch)
        logits: Tensor = self.head(features)
        return logits

    def token_outputs(self, batch: PairBatch) -> Tensor:
        return self._encode(batch.input_ids, batch.attention_mask, batch.token_type_ids)

    def features(self, batch: PairBatch) -> PairFeatures:
        """Everything that a head may read: what is stored of a frozen encoder."""
        return self._features(self.token_outputs(batch), batch)

    @in_float32
    def _features(self, outputs: Tensor, batch: PairBatch) -> PairFeatures:
        return pair_features(outputs.float(), batch)

    def _encode(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        inputs = inputs_of(self.encoder, input_ids, attention_mask, token_type_ids)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs


class HeadKind(RerankerKind):
    """Encoders with a head, whose weights have a file of their own."""

    def load(self, folder: Path, shape: Shape, dropout: Dropout, /) -> Loaded:
        model, texts = self.create(folder, shape, dropout, None)
        try:
            model.get_submodule("head").load_state_dict(load_file(folder / HEAD))
        except (OSError, RuntimeError, ValueError, SafetensorError) as error:
            raise ModelError(
                f"{folder / HEAD}: this is not the head of a {shape.kind}, or damaged"
            ) from error
        return model, texts

    def parts(self, model: Any) -> ModelParts:
        return ModelParts(model.encoder, model.head, HEAD)


@dataclass(frozen=True)
class EncoderKind(HeadKind):
    """Encoders with a head, which is made from the encoder's width and the settings of a shape."""

    has_head: ClassVar[bool] = True

    head: Callable[..., nn.Module]
    pooled: bool = False

    @property
    def reads_parts(self) -> bool:
        return not self.pooled

    def create(self, start: Path, shape: Shape, dropout: Dropout, _keep: Vocabulary, /) -> Loaded:
        encoder = read_encoder(start, dropout)
        head = build(self.head, width(encoder), shape, "head of ")
        model = EncoderRanker(encoder, head, pooled=self.pooled, frozen=shape.frozen)
        return model, read_pair_tokenizer(start, model, shape)
