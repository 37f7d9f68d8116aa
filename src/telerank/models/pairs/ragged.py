"""Rows of uneven lengths through recurrent layers, without their padding.

Rows are packed as torch packs them: sorted by length, the longest first; all first items, then all second
ones. So each step is a matrix product over the rows that are that long.

======  ==============================================================================================
``B``   rows, which are pairs of a batch
``L``   items of the longest: its tokens, or its sentences
``R``   items of all rows
``H``   width of an item
======  ==============================================================================================

A row without an item is read as one item of zeros, so that a text without a word has a state, too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


def pack(items: Tensor, mask: Tensor) -> PackedSequence:
    """(B, L, H) and where items stand, (B, L), which is true from the left without gaps."""
    lengths = mask.sum(1).clamp(min=1).cpu()  # torch wants them there
    return pack_padded_sequence(items, lengths, batch_first=True, enforce_sorted=False)


def drop_items(packed: PackedSequence, dropout: nn.Dropout) -> PackedSequence:
    """Dropout over the items, and no random number for padding."""
    return PackedSequence(dropout(packed.data), *packed[1:])


def run_gru(gru: nn.GRU, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
    """All states of a GRU over rows; and the last of each row, (B, width), in the rows' own order."""
    states, last = gru(packed)
    return states, last[-1]


def item_positions(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """The row of each item, in sorted order, and its number in the row: both (R,)."""
    sizes = packed.batch_sizes
    numbers = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # (R,)
    rows = torch.arange(len(numbers)) - (sizes.cumsum(0) - sizes)[numbers]
    device = packed.data.device
    return rows.to(device, non_blocking=True), numbers.to(device, non_blocking=True)


def with_first_item(mask: Tensor) -> Tensor:
    """``mask`` (B, L), with the first item of each row that has none: what :func:`pack` reads."""
    first = torch.zeros_like(mask)
    first[:, 0] = ~mask.any(1)
    return mask | first
