"""The GRU whose update gate is an attention gate (Xiong et al. 2016; BERT-DMN's equation 1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class AttentionGru(nn.Module):
    """h_t = g_t h'_t + (1 - g_t) h_(t-1), with h_0 = 0 and the candidate state of a GRU for h':

    r_t = sigmoid(W_r c_t + U_r h_(t-1) + b_r) and h'_t = tanh(W c_t + r_t ∘ U h_(t-1) + b), with candidate
    facts c_t = [s_t; m]. The share of the facts is the same in every episode (:meth:`project`), the share of
    the memory is the same in every step.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fact = nn.Linear(width, 2 * width)  # W_r and W on s; b_r and b
        self.memory = nn.Linear(width, 2 * width, bias=False)  # W_r and W on m
        self.state = nn.Linear(width, 2 * width, bias=False)  # U_r and U

    def project(self, facts: Tensor) -> Tensor:
        """The share of the facts, (R, width) -> (R, 2 width)."""
        projected: Tensor = self.fact(facts)
        return projected

    def forward(self, projected: Tensor, gates: Tensor, memory: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Projected facts, gates, (R,), and memories, (B, width) -> last states, (B, width), in sorted order.

        ``sizes`` has the rows of each step.
        """
        of_memory = self.memory(memory)  # (B, 2 width)
        inputs = projected + torch.cat([of_memory[:size] for size in sizes])  # (R, 2 width)
        weight = self.state.weight
        with torch.autocast(inputs.device.type, enabled=False):  # in the precision of the weights
            states: Tensor = _Recurrence.apply(inputs.to(weight.dtype), gates.to(weight.dtype), weight, sizes)  # type: ignore[no-untyped-call]
        return states


class _Recurrence(torch.autograd.Function):
    """The steps, with their derivative written out: U's gradient is one product over all of them.

    This takes half the time of autograd, which records every step.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, gates: Tensor, weight: Tensor, sizes: tuple[int, ...]) -> Tensor:
        width = weight.shape[1]
        state = inputs.new_zeros(sizes[0], width)
        before, reset, turned, candidate = (torch.empty_like(inputs[:, :width]) for _ in range(4))
        start = 0
        for size in sizes:
            step = slice(start, start + size)
            start += size
            old = before[step].copy_(state[:size])
            from_state = old @ weight.T  # (size, 2 width)
            r = torch.add(inputs[step, :width], from_state[:, :width], out=reset[step]).sigmoid_()
            u = turned[step].copy_(from_state[:, width:])
            h = torch.addcmul(inputs[step, width:], r, u, out=candidate[step]).tanh_()
            state[:size] += gates[step].unsqueeze(1) * (h - old)
        ctx.save_for_backward(gates, weight, before, reset, turned, candidate)
        ctx.sizes = sizes
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        gates, weight, before, reset, turned, candidate = ctx.saved_tensors
        width, gradient = weight.shape[1], gradient.clone()
        to_inputs = torch.empty_like(torch.cat([before, before], 1))
        to_state, to_gates = torch.empty_like(to_inputs), torch.empty_like(gates)
        slope, slope_r = 1 - candidate * candidate, reset * (1 - reset) * turned
        end = len(gates)
        for size in reversed(ctx.sizes):
            step = slice(end - size, end)
            end -= size
            after = gradient[:size]
            gate = gates[step].unsqueeze(1)
            to_gates[step] = (after * (candidate[step] - before[step])).sum(1)
            inside = torch.mul(after * gate, slope[step], out=to_inputs[step, width:])
            torch.mul(inside, slope_r[step], out=to_inputs[step, :width])
            to_state[step, :width] = to_inputs[step, :width]
            torch.mul(inside, reset[step], out=to_state[step, width:])
            after.mul_(1 - gate).addmm_(to_state[step], weight)
        return to_inputs, to_gates, to_state.T @ before, None
