"""The largest logit of each piece over the tokens of a text, whose logits are never all in memory.

All logits of a batch would take 4 B L V bytes, two gigabytes for 144 texts of 128 tokens, and their gradient
as many, of which all but a number for each text and piece are zero. Here logits are computed for some pieces
after others, and the gradient is that of the largest ones alone.

=====  ==============================================
``B``  texts
``L``  tokens of a text, special ones among them
``V``  pieces of the vocabulary
``H``  numbers of a token
=====  ==============================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

_LOGITS = 1 << 18  # at a time: a megabyte, which a processor's cache holds
_LOGITS_OF_GPU = 1 << 27
_NUMBERS = 1 << 16  # of a gradient that are passed on at a time, each with H numbers


def pieces_at_a_time(hidden: Tensor, size: int) -> Iterator[slice]:
    """The pieces (V = ``size``) of which logits are computed together, for tokens ``hidden`` (B, L, H)."""
    most = _LOGITS if hidden.device.type == "cpu" else _LOGITS_OF_GPU
    step = max(64, most // (hidden.shape[0] * hidden.shape[1]))
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


class LargestLogits(torch.autograd.Function):
    """Tokens (B, L, H), weights (V, H), biases (V,) and a mask (B, L, 1) -> the largest logits (B, V).

    Logits of masked tokens are 0, as SPLADE has them. Of equal logits the first has the gradient.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, mask: Tensor) -> Tensor:
        largest, largest_at = [], []
        for part in pieces_at_a_time(hidden, len(weight)):
            logits = linear(hidden, weight[part], bias[part])
            values, tokens = logits.mul_(mask.to(logits.dtype)).max(1)
            largest.append(values)
            largest_at.append(tokens)
        ctx.save_for_backward(hidden, weight, mask, torch.cat(largest_at, 1))
        return torch.cat(largest, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, mask, largest_at = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias, _ = ctx.needs_input_grad
        # a masked token's logit is a constant
        gradient = gradients[0].to(hidden.dtype) * mask[..., 0].to(hidden.dtype).gather(1, largest_at)
        of_hidden, of_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        # a piece without a weight in a text has none there: most are zero. A GPU would wait for their number
        flat, size = gradient.flatten(), len(weight)
        every = hidden.device.type != "cpu"
        numbers = torch.arange(len(flat), device=flat.device) if every else flat.nonzero().squeeze(1)
        for part in numbers.split(_NUMBERS):
            texts, pieces = part // size, part % size
            tokens, own = largest_at[texts, pieces], flat[part].unsqueeze(1)
            if needs_hidden:
                of_hidden.index_put_((texts, tokens), own * weight[pieces].to(own.dtype), accumulate=True)
            if needs_weight:
                of_weight.index_add_(0, pieces, (own * hidden[texts, tokens]).to(weight.dtype))
        return (
            of_hidden if needs_hidden else None,
            of_weight if needs_weight else None,
            gradient.sum(0).to(weight.dtype) if needs_bias else None,
            None,
        )
