"""The input of models over word vectors: the words of queries and passages, and their vectors.

======  ==============================================================================================
``B``   pairs of a batch
``N``   words of the longest query
``T``   words of the longest passage
``V``   rows of the word vectors, the two special ones among them
``E``   width of a word vector
======  ==============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.pairs.features import gather_tokens
from telerank.models.pairs.pair import PASSAGE, QUERY, PairBatch
from telerank.models.pairs.words import PADDING, SPECIAL


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


def spread_over_tokens(values: Tensor, mask: Tensor, batch: PairBatch) -> Tensor:
    """Values of the words of passages, (B, T), at the positions of their tokens, (B, L); elsewhere zero."""
    spread = values.new_zeros(batch.parts.shape)
    spread[batch.parts == PASSAGE] = values[mask]
    return spread


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
