"""The outputs of a pair that a head reads: the first token's, the query's, the means of the sentences'.

Recurrent layers read rows of uneven lengths without padding, packed as torch packs them: sorted by length,
the longest first; all first items, then all second items. So each step is a matrix product over the rows of
at least that length. A row without items is read as a single item of zeros, so that a text without words
has a state, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from telerank.models.pairs.pair import PASSAGE, QUERY, PairBatch


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """``cls`` (B, H), ``query`` (B, N, H), ``sentences`` (B, S, H); masks (B, N) and (B, S).

    Outputs are zeros if the mask is false. Both masks have at least one column, even if no text has a token.
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
        return PairFeatures(*(tensor.to(device, non_blocking=True) for tensor in vars(self).values()))


def pair_features(tokens: Tensor, batch: PairBatch) -> PairFeatures:
    """The features of an encoder's outputs, (B, L, H): BERT-DMN's section 3.2.1."""
    query, query_mask = gather_tokens(tokens, batch.parts == QUERY)
    return PairFeatures(tokens[:, 0], query, query_mask, *sentence_means(tokens, batch))


def gather_tokens(tokens: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that a mask (B, L) chooses, moved to the left, (B, N, H), and their mask, (B, N)."""
    if not chosen.shape[1]:  # pairs without a token, of word vectors
        tokens, chosen = (tensor.new_zeros(len(tensor), 1, *tensor.shape[2:]) for tensor in (tokens, chosen))
    counts = chosen.sum(1)  # (B,)
    most = max(1, int(counts.max())) if len(chosen) else 1
    order = (~chosen).to(torch.int8).argsort(dim=1, stable=True)[:, :most]  # (B, N)
    mask = torch.arange(most, device=chosen.device) < counts.unsqueeze(1)  # (B, N)
    moved = tokens.gather(1, order.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
    return moved * mask.unsqueeze(-1).to(tokens.dtype), mask


def sentence_means(tokens: Tensor, batch: PairBatch) -> tuple[Tensor, Tensor]:
    """The mean of each sentence's outputs, (B, S, H), and the mask of sentences, (B, S)."""
    return group_means(tokens, batch.sentences.masked_fill(batch.parts != PASSAGE, -1))


def group_means(tokens: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """The means of tokens, (B, L, H), with the same number, (B, L), (B, S, H), and their mask, (B, S).

    Tokens with the number -1 are in no mean.
    """
    columns = torch.arange(max(1, int(numbers.max()) + 1) if numbers.numel() else 1, device=numbers.device)
    members = (numbers.unsqueeze(1) == columns.view(1, -1, 1)).to(tokens.dtype)  # (B, S, L)
    counts = members.sum(2, keepdim=True)  # (B, S, 1)
    return members @ tokens / counts.clamp(min=1), counts.squeeze(2) > 0


def pack(items: Tensor, mask: Tensor) -> PackedSequence:
    """Pack items, (B, L, H), by their mask, (B, L), which is true from the left without gaps."""
    lengths = mask.sum(1).clamp(min=1).cpu()  # torch requires the processor
    return pack_padded_sequence(items, lengths, batch_first=True, enforce_sorted=False)


def drop_items(packed: PackedSequence, dropout: nn.Dropout) -> PackedSequence:
    """Apply dropout to the items, without drawing random numbers for padding."""
    return PackedSequence(dropout(packed.data), *packed[1:])


def item_positions(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """The row of each item, in sorted order, and its position in the row: both (R,)."""
    sizes = packed.batch_sizes
    numbers = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # (R,)
    rows = torch.arange(len(numbers)) - (sizes.cumsum(0) - sizes)[numbers]
    device = packed.data.device
    return rows.to(device, non_blocking=True), numbers.to(device, non_blocking=True)


def with_first_item(mask: Tensor) -> Tensor:
    """The mask, (B, L), of the items that :func:`pack` reads: the first item of rows without items, too."""
    first = torch.zeros_like(mask)
    first[:, 0] = ~mask.any(1)
    return mask | first
