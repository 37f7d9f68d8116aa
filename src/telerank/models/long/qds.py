"""QDS-Transformer: a Longformer whose attention is directed by the query (Jiang et al. 2020).

Every token attends to those in its window. The first token, the query's tokens and the first token of each
sentence attend to all tokens, and all tokens to them. The paper puts a token of its own before each sentence;
here the first one that the sentence has takes its part, so that no vocabulary changes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor, nn
from transformers import LongformerModel

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import width
from telerank.models.loading import read_encoder
from telerank.models.pairs.pair import QUERY, PairBatch, PairFeatures
from telerank.models.precision import in_float32
from telerank.models.rerankers.bert import ClsMlp
from telerank.models.rerankers.kinds import Loaded, Shape, build
from telerank.models.rerankers.transformer_ranker import (
    HeadKind,
    TransformerRanker,
    inputs_of,
    read_pair_tokenizer,
)


def find_global(batch: PairBatch) -> Tensor:
    """The tokens that attend to all and that all attend to, (B, L): 1 for them, else 0."""
    before = batch.sentences.roll(1, 1)
    before[:, 0] = -1
    begins = (batch.sentences >= 0) & (batch.sentences != before)
    chosen = begins | (batch.parts == QUERY)
    chosen[:, 0] = True
    return chosen.long()


class QdsTransformer(TransformerRanker):
    """A Longformer on the whole pair, with the attention of :func:`find_global`, and a head on its first
    output.
    """

    pooled = True

    def __init__(self, encoder: nn.Module, head: ClsMlp) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    @property
    def last_layers(self) -> ClsMlp:
        return self.head

    def forward(self, batch: PairBatch) -> Tensor:
        return self.finish(self.token_outputs(batch)[:, 0], batch)

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Tokens of pairs, each (B, L) -> the first token's outputs, (B, H); it alone attends to all."""
        inputs = inputs_of(self.encoder, input_ids, attention_mask, token_type_ids)
        outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs[:, 0]

    @in_float32
    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        logits: Tensor = self.head(PairFeatures.of_first(outputs.float()))
        return logits

    def token_outputs(self, batch: PairBatch) -> Tensor:
        return self._encode(batch.input_ids, batch.attention_mask, batch.token_type_ids, find_global(batch))

    def _encode(self, input_ids: Tensor, attention_mask: Tensor, types: Tensor, chosen: Tensor) -> Tensor:
        inputs = inputs_of(self.encoder, input_ids, attention_mask, types)
        inputs["global_attention_mask"] = chosen
        outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs


@dataclass(frozen=True)
class QdsKind(HeadKind):
    """Longformers with a head, which read queries and sentences in the pair."""

    no_graph: ClassVar[str] = "directs its attention by the words of each pair"

    def create(
        self, start: Path, shape: Shape, dropout: float | None, _keep: Collection[str] | None, /
    ) -> Loaded:
        encoder = read_encoder(start, dropout)
        if not isinstance(encoder, LongformerModel):
            command = f"make one of it: telerank train lengthen {start.name} FOLDER"
            raise ModelError(
                f"{start}: a qds starts from a Longformer, got {type(encoder).__name__}; {command}"
            )
        model = QdsTransformer(encoder, build(ClsMlp, width(encoder), shape, "head of "))
        return model, read_pair_tokenizer(start, model, shape.max_query, shape.max_length)


KIND = QdsKind(
    reads_sentences=True,
    # 2,048 tokens: table 1 of Kim et al.; loss and rate are those of their own models
    training={
        "model": {"start": "allenai/longformer-base-4096", "max_length": 2048, "head": {"hidden": []}},
        "loss": {"objective": "margin", "margin": 1.0, "of": "logit"},
        "optimisation": {"learning_rate": 1e-5, "warm_up": 0.1},
    },
)
