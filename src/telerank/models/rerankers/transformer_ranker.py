"""What all models of pairs share: re-rankers and readers of answers, most of them on a transformer.

And an encoder with a head: BERT, BERT-DMN, "lite" or not.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from telerank.drafts import share_weights
from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import token_types, width
from telerank.models.loading import check_encodes, read_encoder, read_tokenizer, save_weights
from telerank.models.pairs.pair import PairBatch, PairFeatures, PairTexts, PairTokenizer, pair_features
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import Loaded, ModelParts, RerankerKind, Shape, build


def save_model(
    folder: str | Path, parts: ModelParts, texts: PairTexts, settings: str, record: Mapping[str, Any]
) -> None:
    """Write a model, its tokenizer or vocabulary, and its settings into a folder, which is made if needed."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    if parts.transformer is not None:
        save_weights(parts.transformer, root)
    if parts.layers is not None:
        weights = parts.layers.state_dict()
        save_file({name: weight.contiguous() for name, weight in weights.items()}, root / parts.file)
        share_weights(root)
    texts.save(root)
    (root / settings).write_text(f"{json.dumps(record, indent=2)}\n", encoding="utf-8")


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

    def longest_input(self, texts: PairTexts) -> int:
        """Most tokens of a row that :meth:`transformer` reads."""
        return texts.max_length

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
    """The arguments of a transformer: token types only if it tells them apart.

    Of a plain Longformer the first token attends to all, as its classifiers have it by themselves.
    """
    inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
    if type(transformer).__name__ == "LongformerModel":
        first = torch.zeros_like(input_ids)
        first[:, 0] = 1
        inputs["global_attention_mask"] = first
    return inputs | ({"token_type_ids": token_type_ids} if token_types(transformer) > 1 else {})


def read_pair_tokenizer(
    folder: Path, model: TwoStepModel, max_query: int | None, max_length: int
) -> PairTokenizer:
    """The tokenizer of a folder, for pairs that are cut at these lengths.

    Raises ModelError if the model cannot compute a text's tokens or has fewer positions, or the lengths leave
    no room for a passage.
    """
    tokenizer = read_tokenizer(folder)
    check_encodes(folder, tokenizer, lambda ids, mask: model.transformer(ids, mask, torch.zeros_like(ids)))
    texts = PairTokenizer(tokenizer, max_query=max_query, max_length=max_length)
    check_length(model, model.longest_input(texts), f"{folder}: ")
    return texts


def check_length(model: nn.Module, length: int, prefix: str = "") -> None:
    """Raise ModelError if a model has fewer positions than ``length``."""
    longest = positions(model)
    if longest is not None and length > longest:
        raise ModelError(f"{prefix}pairs of {length} tokens, but the model has {longest} positions")


def positions(model: nn.Module) -> int | None:
    """How many tokens a model reads; None if it says nothing of it.

    It is the length of its table of absolute positions, less those reserved for padding (RoBERTa and its
    descendants number positions from after the padding's number: their 514 hold 512 tokens); of a model that
    turns vectors by their positions (rotary) what its configuration says that it was made for.
    """
    longest = None
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
        config = getattr(module, "config", None)
        if getattr(config, "rope_parameters", None):
            longest = int(config.max_position_embeddings)  # type: ignore[union-attr]
    return longest


def describe_windows(transformer: Any) -> str:
    """Why no graph computes a transformer whose windows depend on the length of the batch; else empty."""
    is_longformer = getattr(transformer.config, "model_type", "") == "longformer"
    return "is a Longformer, whose windows are cut for each batch" if is_longformer else ""


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
        outputs = self.token_outputs(batch)
        with torch.autocast(outputs.device.type, enabled=False):
            return pair_features(outputs.float(), batch)

    def _encode(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        inputs = inputs_of(self.encoder, input_ids, attention_mask, token_type_ids)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs


class HeadKind(RerankerKind):
    """Encoders with a head, whose weights have a file of their own."""

    def load(self, folder: Path, shape: Shape, dropout: float | None, /) -> Loaded:
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

    def create(
        self, start: Path, shape: Shape, dropout: float | None, _keep: Collection[str] | None, /
    ) -> Loaded:
        encoder = read_encoder(start, dropout)
        head = build(self.head, width(encoder), shape, "head of ")
        model = EncoderRanker(encoder, head, pooled=not self.reads_parts, frozen=shape.frozen)
        return model, read_pair_tokenizer(start, model, shape.max_query, shape.max_length)
