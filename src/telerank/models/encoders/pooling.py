"""From the vectors of a text's tokens to the vector of the text: functions ``(tokens, mask) -> texts``.

``tokens`` is ``(B, L, H)``; ``mask`` is ``(B, L)``, 1 at tokens and 0 at padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from telerank.errors import ModelError


def mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens, special tokens among them (RepBERT, equation 2)."""
    weights = mask.unsqueeze(-1).to(tokens.dtype)  # (B, L, 1)
    # at least 1: a text without a token, for which some tokenizers give an empty row, is the zero vector
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)


def first(tokens: Tensor, mask: Tensor) -> Tensor:
    """The first token that is not padding, with padding on the left, too: ``[CLS]``, ``<s>``."""
    rows = torch.arange(tokens.shape[0], device=tokens.device)
    return tokens[rows, mask.to(torch.int64).argmax(1)]


POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"mean": mean, "cls": first}


def find_pooling(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The pooling of that name. Raises ModelError if there is none."""
    if name not in POOLINGS:
        raise ModelError(f"no pooling is called {name!r}; there are: {', '.join(POOLINGS)}")
    return POOLINGS[name]
