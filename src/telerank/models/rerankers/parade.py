"""PARADE: a document's score from the [CLS] outputs of its passages (Li et al. 2020, arXiv 2008.09093).

======  ====================================================
``B``   pairs of a query and a document
``P``   passages of a document at most
``N``   passages of all documents
======  ====================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from telerank.errors import ArgumentError, ModelError
from telerank.models.encoders.bi_encoder import width
from telerank.models.loading import read_encoder
from telerank.models.pairs.pair import PASSAGE, PairBatch, PairTexts
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import Loaded, Shape, build
from telerank.models.rerankers.transformer_ranker import (
    HeadKind,
    TransformerRanker,
    inputs_of,
    read_pair_tokenizer,
)

AGGREGATES = ("avg", "max", "attn", "transformer")


class ParadeHead(nn.Module):
    """One vector for a document from those of its passages, and its logit: section 3 of the paper.

    ``aggregate`` is one of :data:`AGGREGATES`: the mean, the largest of each dimension, a mean weighted by
    the softmax of a linear layer, or the first output of a transformer of ``layers`` layers over a learned
    vector, at first the encoder's own of [CLS], and the passages, each with the vector of its position.
    Documents have at most ``passages`` passages of ``length`` tokens, which begin every ``stride`` tokens.
    """

    def __init__(
        self,
        width: int,
        *,
        aggregate: str = "transformer",
        length: int = 225,
        stride: int = 200,
        passages: int = 16,
        layers: int = 2,
        **more: Any,
    ) -> None:
        super().__init__()
        if aggregate not in AGGREGATES:
            raise ArgumentError(f"no aggregate is called {aggregate!r}; there are: {', '.join(AGGREGATES)}")
        if more and aggregate != "transformer":
            raise ArgumentError(f"{', '.join(more)}: settings of the transformer, not of {aggregate!r}")
        if not 1 <= stride <= length or passages < 1:
            raise ArgumentError(f"passages of {length} tokens, every {stride}, at most {passages}")
        self.aggregate, self.length, self.stride, self.passages = aggregate, length, stride, passages
        self.answer = nn.Linear(width, 1)
        if aggregate == "attn":
            self.attention = nn.Linear(width, 1)
        if aggregate == "transformer":
            self.start = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.positions = nn.Embedding(passages + 1, width)
            self.layers = _make_layers(width, layers, **more)

    @property
    def reach(self) -> int:
        """Most tokens of a document."""
        return self.length + (self.passages - 1) * self.stride

    def forward(self, passages: Tensor, mask: Tensor) -> Tensor:
        """Passages, (B, P, H), and which there are, (B, P) -> logits, (B,)."""
        logits: Tensor = self.answer(self._join(passages, mask)).squeeze(-1)  # (B, H) -> (B, 1) -> (B,)
        return logits

    def start_from(self, encoder: nn.Module, token: int) -> None:
        """Begin the transformer's input with the encoder's vector of a token, [CLS], if it is as wide."""
        vectors = encoder.get_input_embeddings().weight  # type: ignore[operator]
        if vectors.shape[1] == self.start.shape[2]:
            self.start.data = vectors[token].detach().clone().view_as(self.start)

    def weigh(self, passages: Tensor, mask: Tensor) -> Tensor:
        """The attention to each passage, (B, P), which sums to 1."""
        weights: Tensor = self.attention(passages).squeeze(-1).masked_fill(~mask, -torch.inf).softmax(-1)
        return weights

    def _join(self, passages: Tensor, mask: Tensor) -> Tensor:
        present = mask.unsqueeze(-1)
        if self.aggregate == "avg":
            return (passages * present).sum(1) / present.sum(1)
        if self.aggregate == "max":
            return passages.masked_fill(~present, -torch.inf).amax(1)
        if self.aggregate == "attn":
            return (self.weigh(passages, mask).unsqueeze(-1) * passages).sum(1)
        items = torch.cat([self.start.expand(len(passages), 1, -1), passages], 1)  # (B, 1 + P, H)
        items = items + self.positions(torch.arange(items.shape[1], device=items.device))
        padding = torch.cat([torch.zeros_like(mask[:, :1]), ~mask], 1)
        for layer in self.layers:
            items = layer(items, src_key_padding_mask=padding)
        first: Tensor = items[:, 0]
        return first


def _make_layers(width: int, layers: int, *, heads: int | None = None, dropout: float = 0.1) -> nn.ModuleList:
    heads = max(1, width // 64) if heads is None else heads
    sizes = (width, heads, 4 * width, dropout, "gelu")
    return nn.ModuleList(nn.TransformerEncoderLayer(*sizes, batch_first=True) for _ in range(layers))


class Parade(TransformerRanker):
    """An encoder on each passage of a document with the query, and a :class:`ParadeHead` on its outputs.

    A pair has a whole document, whose passages are cut out of it here.
    """

    pooled = True

    def __init__(self, encoder: nn.Module, head: ParadeHead) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    @property
    def last_layers(self) -> ParadeHead:
        return self.head

    def longest_input(self, texts: PairTexts) -> int:
        return texts.frame.size + texts.longest_query + self.head.length

    def forward(self, batch: PairBatch) -> Tensor:
        inputs, rows = self.cut(batch)
        return self._finish(self.transformer(*inputs), rows, len(batch))

    def transformer(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Passages with their queries, each (N, L) -> the first token's outputs, (N, H)."""
        inputs = inputs_of(self.encoder, input_ids, attention_mask, token_type_ids)
        outputs: Tensor = self.encoder(**inputs).last_hidden_state
        return outputs[:, 0]

    def finish(self, outputs: Tensor, batch: PairBatch) -> Tensor:
        return self._finish(outputs, self.cut(batch)[1], len(batch))

    def token_outputs(self, batch: PairBatch) -> Tensor:  # noqa: ARG002 — as of every re-ranker
        raise ModelError("a parade has no outputs of a whole pair's tokens: it reads passages")

    @in_float32
    def _finish(self, outputs: Tensor, rows: Tensor, count: int) -> Tensor:
        """Outputs, (N, H), of the passages of documents ``rows``, (N,) -> logits, (B,).

        ``rows`` are on the processor, so that nothing waits for a GPU.
        """
        counts = torch.bincount(rows, minlength=count)  # (B,)
        mask = torch.arange(int(counts.max())) < counts.unsqueeze(1)  # (B, P)
        passages = outputs.new_zeros(*mask.shape, outputs.shape[-1], dtype=torch.float32)
        document, number = mask.nonzero().to(outputs.device, non_blocking=True).unbind(1)
        passages[document, number] = outputs.float()
        logits: Tensor = self.head(passages, mask.to(outputs.device, non_blocking=True))
        return logits

    def cut(self, batch: PairBatch) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
        """Tokens, mask and types of every passage with its query, each (N, L), and its document, (N,).

        The documents' numbers are on the processor, where passages are cut: one wait for a GPU.
        """
        chosen, rows = [], []
        real, parts = torch.stack([batch.attention_mask, batch.parts]).cpu()
        for row in range(len(batch)):
            for index in self._passages(real[row].bool(), parts[row]):
                chosen.append(index)
                rows.append(row)
        longest, documents = max(map(len, chosen)), torch.tensor(rows)
        index = torch.full((len(chosen), longest), -1)
        for number, tokens in enumerate(chosen):
            index[number, : len(tokens)] = tokens
        device = batch.input_ids.device
        index = index.to(device, non_blocking=True)
        mask = index >= 0
        where = documents.to(device, non_blocking=True).unsqueeze(1), index.clamp(min=0)
        ids, types = batch.input_ids[where], batch.token_type_ids[where]
        return (ids.masked_fill(~mask, 0), mask.long(), types.masked_fill(~mask, 0)), documents

    def _passages(self, real: Tensor, parts: Tensor) -> Iterator[Tensor]:
        """The positions of the tokens of each passage and its query, in the pair."""
        text = torch.nonzero((parts == PASSAGE) & real).squeeze(1)
        others = torch.nonzero((parts != PASSAGE) & real).squeeze(1)
        head, start, count = self.head, 0, 0
        while count < head.passages:
            yield torch.cat([others, text[start : start + head.length]]).sort().values
            start, count = start + head.stride, count + 1
            if start + head.length - head.stride >= len(text):
                return


@dataclass(frozen=True)
class ParadeKind(HeadKind):
    """Encoders that read a document by passages; ``max_length`` counts the tokens of the whole pair."""

    no_graph: ClassVar[str] = "cuts documents into passages"

    def create(
        self, start: Path, shape: Shape, dropout: float | None, _keep: Collection[str] | None, /
    ) -> Loaded:
        encoder = read_encoder(start, dropout)
        model = Parade(encoder, build(ParadeHead, width(encoder), shape, "head of "))
        texts = read_pair_tokenizer(start, model, shape.max_query, shape.max_length)
        if model.head.aggregate == "transformer":
            model.head.start_from(encoder, texts.tokenizer.cls_token_id)
        if shape.max_length > (longest := texts.frame.size + model.head.reach):
            raise ModelError(
                f"{start}: pairs of {shape.max_length} tokens, "
                f"but {model.head.passages} passages hold {model.head.reach} tokens: at most {longest}"
            )
        return model, texts


KIND = ParadeKind(
    # section 4.2: passages of 225 tokens with a stride of 200, 16 of them, pairwise hinge loss
    training={
        "model": {
            "start": "bert-base-uncased",
            "max_length": 3 + 225 + 15 * 200,
            "head": {"aggregate": "transformer"},
        },
        "loss": {"objective": "margin"},
        "optimisation": {"learning_rate": 3e-6},
    },
)
