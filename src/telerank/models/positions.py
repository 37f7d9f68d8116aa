"""How many tokens a transformer can read."""

from __future__ import annotations

from torch import nn


def positions(model: nn.Module) -> int | None:
    """The length of its table of absolute positions, without those that padding takes, if it has one.

    RoBERTa and those that follow it number positions from after the padding's number: their 514 hold 512.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            taken = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - taken
    return None
