"""What all re-rankers over word vectors share: the words of queries and passages, and a table of vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.pairs.pair import PASSAGE, QUERY, PairBatch, gather_tokens
from telerank.models.pairs.words import PADDING, SPECIAL, VOCABULARY, Words, load_vectors, load_vocabulary
from telerank.models.rerankers.kinds import Loaded, ModelParts, RerankerKind, Shape, build

WEIGHTS = "model.safetensors"
_TABLE = "words.weight"


@dataclass(frozen=True, eq=False)
class PairSides:
    """Words of a batch, as rows of the word vectors.

    ``query`` (B, N) and ``passage`` (B, T) are 0 if their masks are false; ``sentences`` (B, T) has the
    number of each word's sentence, and -1 for padding.
    """

    query: Tensor
    query_mask: Tensor
    passage: Tensor
    passage_mask: Tensor
    sentences: Tensor


def split_sides(batch: PairBatch) -> PairSides:
    """The words of queries and of passages; both have at least one column, even if no text has a word."""
    query, query_mask = gather_tokens(batch.input_ids.unsqueeze(-1), batch.parts == QUERY)
    both = torch.stack([batch.input_ids, batch.sentences + 1], dim=-1)  # (B, L, 2)
    passage, passage_mask = gather_tokens(both, batch.parts == PASSAGE)
    return PairSides(query[..., 0], query_mask, passage[..., 0], passage_mask, passage[..., 1] - 1)


def make_embedding(vectors: Tensor, *, frozen: bool) -> nn.Embedding:
    """A table that starts from ``vectors`` (V, E); the padding's row never changes.

    Raises ModelError if they are not a table of word vectors.
    """
    if vectors.dim() != 2 or len(vectors) < SPECIAL or vectors[PADDING].any():
        raise ModelError(
            "expected word vectors as load_vectors gives them: zeros, the unknown word's, the words'"
        )
    table = vectors.detach().to(torch.float32).clone()
    layer = nn.Embedding(table.shape[0], table.shape[1], padding_idx=PADDING, _weight=table)
    layer.weight.requires_grad_(not frozen)
    return layer


@dataclass(frozen=True)
class WordKind(RerankerKind):
    """Models that are made from a table of word vectors and the settings of a shape."""

    over_words: ClassVar[bool] = True

    model: Callable[..., nn.Module]

    def create(
        self, start: Path, shape: Shape, _dropout: float | None, keep: Collection[str] | None, /
    ) -> Loaded:
        vocabulary, table = load_vectors(start, keep)
        words = Words(vocabulary, max_query=shape.max_query, max_length=shape.max_length)
        return build(self.model, table, shape), words

    def load(self, folder: Path, shape: Shape, _dropout: float | None, /) -> Loaded:
        vocabulary = load_vocabulary(folder / VOCABULARY)
        try:
            weights = load_file(folder / WEIGHTS)
            model = build(self.model, torch.zeros_like(weights[_TABLE]), shape)
            model.load_state_dict(weights)
        except ModelError:
            raise
        except (OSError, RuntimeError, ValueError, KeyError, SafetensorError) as error:
            raise ModelError(
                f"{folder / WEIGHTS}: these are no weights of a {shape.kind}, or damaged ones"
            ) from error
        rows = len(weights[_TABLE]) - SPECIAL
        if rows != len(vocabulary):
            raise ModelError(f"{folder / VOCABULARY}: expected {rows:,} words, got {len(vocabulary):,}")
        return model, Words(vocabulary, max_query=shape.max_query, max_length=shape.max_length)

    def parts(self, model: nn.Module) -> ModelParts:
        return ModelParts(layers=model, file=WEIGHTS)
