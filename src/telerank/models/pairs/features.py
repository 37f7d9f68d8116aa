"""What a head sees of a pair: the first token's output, the query's, and the means of the sentences'.

======  ==============================================================================================
``B``   pairs of a batch
``L``   tokens of the longest of them
``N``   tokens of the longest query
``S``   sentences of the passage that has most
``H``   width of the encoder's outputs
======  ==============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from telerank.models.pairs.pair import PASSAGE, QUERY, PairBatch


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """``cls`` (B, H), ``query`` (B, N, H), ``sentences`` (B, S, H); masks (B, N) and (B, S), true where one
    stands.

    Where the mask is false there are zeros. Both have at least one column, also where no text has a token.
    """

    cls: Tensor
    query: Tensor
    query_mask: Tensor
    sentences: Tensor
    sentence_mask: Tensor

    @classmethod
    def of_first(cls, outputs: Tensor) -> PairFeatures:
        """The first token's output alone, (B, H); there are neither query nor sentences."""
        nothing, mask = torch.zeros_like(outputs)[:, None], outputs.new_zeros(len(outputs), 1).bool()
        return cls(outputs, nothing, mask, nothing, mask)

    def __len__(self) -> int:
        return int(self.cls.shape[0])

    def to(self, device: torch.device | str) -> PairFeatures:
        return PairFeatures(*(one.to(device, non_blocking=True) for one in vars(self).values()))


def pair_features(tokens: Tensor, batch: PairBatch) -> PairFeatures:
    """The features of an encoder's outputs, (B, L, H): BERT-DMN's section 3.2.1."""
    query, query_mask = gather_tokens(tokens, batch.parts == QUERY)
    return PairFeatures(tokens[:, 0], query, query_mask, *sentence_means(tokens, batch))


def gather_tokens(tokens: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that a mask (B, L) picks, moved to the left: (B, N, H), and where they stand, (B, N)."""
    if not where.shape[1]:  # pairs without a token, of word vectors
        tokens, where = (one.new_zeros(len(one), 1, *one.shape[2:]) for one in (tokens, where))
    counts = where.sum(1)  # (B,)
    most = max(1, int(counts.max())) if len(where) else 1
    order = (~where).to(torch.int8).argsort(dim=1, stable=True)[:, :most]  # (B, N)
    mask = torch.arange(most, device=where.device) < counts.unsqueeze(1)  # (B, N)
    moved = tokens.gather(1, order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
    return moved * mask.unsqueeze(-1).to(tokens.dtype), mask


def sentence_means(tokens: Tensor, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """The mean of each sentence's outputs, (B, S, H), and which sentences there are, (B, S)."""
    spoken = batch.sentences.masked_fill(batch.parts != PASSAGE, -1)  # (B, L)
    most = max(1, int(spoken.max()) + 1) if spoken.numel() else 1
    numbers = torch.arange(most, device=spoken.device)
    members = (spoken.unsqueeze(1) == numbers.view(1, -1, 1)).to(tokens.dtype)  # (B, S, L)
    counts = members.sum(2, keepdim=True)  # (B, S, 1)
    return members @ tokens / counts.clamp(min=1), counts.squeeze(2) > 0
