"""How many tokens a transformer can read."""

from __future__ import annotations

from torch import nn


def positions(model: nn.Module) -> int | None:
    """The length of its table of absolute positions, less those reserved for padding; None without a table.

    RoBERTa and its descendants number positions from after the padding's number: their 514 hold 512 tokens.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - reserved
    return None
