"""Rows of uneven lengths in recurrent layers, without padding.

Rows are packed as torch packs them: sorted by length, the longest first; all first items, then all second
items. So each step is a matrix product over the rows of at least that length.

======  ==============================================================================================
``B``   rows, which are pairs of a batch
``L``   items of the longest: its tokens, or its sentences
``R``   items of all rows
``H``   width of an item
======  ==============================================================================================

A row without items is read as a single item of zeros, so that a text without words has a state, too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence


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
