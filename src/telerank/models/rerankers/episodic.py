"""The episodic memory of Dynamic Memory Networks (Kumar et al. 2016; Xiong et al. 2016; BERT-DMN, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from telerank.errors import ModelError
from telerank.models.pairs.features import item_positions

GATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softmax": partial(torch.softmax, dim=-1),  # a loaded re-ranker pickles: no lambda
    "sigmoid": torch.sigmoid,
}
"""From scores to gates, (B, S): Xiong et al.'s share one attention among the facts, Kumar et al.'s treat each
fact by itself. BERT-DMN's equation 1 is Xiong et al.'s, while its text refers to Kumar et al. for the gate;
gates are the relative importance of sentences (its section 7) with the first only."""

PAPER_HEAD: Mapping[str, Any] = {"hidden": 256, "episodes": 4, "dropout": 0.1}
"""Settings of BERT-DMN's section 5, for both kinds with an episodic memory."""


class AttentionGate(nn.Module):
    """The score of a fact s: W_2 tanh(W_1 [s ∘ q; |s - q|; s ∘ m; |s - m|] + b_1), as in Xiong et al.

    Kumar et al. have these features and more. Those of the question are the same in every episode
    (:meth:`project_question`).
    """

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.question = nn.Linear(2 * width, width)  # W_1 on the comparison with q; b_1
        self.memory = nn.Linear(2 * width, width, bias=False)  # W_1 on the comparison with m
        self.score = nn.Linear(width, 1, bias=bias)  # W_2

    def project_question(self, facts: Tensor, questions: Tensor) -> Tensor:
        """Facts, and the question of each, both (R, width) -> (R, width)."""
        projected: Tensor = self.question(_compare(facts, questions))
        return projected

    def forward(self, projected: Tensor, facts: Tensor, memories: Tensor) -> Tensor:
        """Projected questions, facts, and the memory of each, all (R, width) -> scores, (R,)."""
        hidden = torch.tanh(projected + self.memory(_compare(facts, memories)))
        scores: Tensor = self.score(hidden).squeeze(-1)
        return scores


class AttentionGru(nn.Module):
    """The GRU whose update gate is an attention gate (Xiong et al. 2016; BERT-DMN's equation 1).

    h_t = g_t h'_t + (1 - g_t) h_(t-1), with h_0 = 0 and the candidate state of a GRU for h':

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


class EpisodicMemory(nn.Module):
    """Reads the facts in ``episodes``, each guided by the memory of the previous episode.

    m^0 is the question; in episode i an attention GRU reads the candidate facts [s_t; m^(i-1)], and its last
    state is m^i. The output is the last state of a GRU over m^1 … m^E. Dropout is applied to the gates;
    ``gate`` is one of :data:`GATES`. Raises ModelError if there is no such gate, or no episode.
    """

    def __init__(self, width: int, *, episodes: int = 4, dropout: float = 0.1, gate: str = "softmax") -> None:
        super().__init__()
        if gate not in GATES:
            raise ModelError(f"no attention gate is called {gate!r}; there are: {', '.join(GATES)}")
        if not isinstance(episodes, int) or episodes < 1:
            raise ModelError(f"a memory needs a whole number of episodes, at least one, got {episodes}")
        self.episodes, self.gate = episodes, GATES[gate]
        # a softmax ignores a constant added to all scores
        self.attention = AttentionGate(width, bias=gate != "softmax")
        self.reader = AttentionGru(width)
        self.memories = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, facts: PackedSequence, question: Tensor) -> tuple[Tensor, Tensor]:
        """Facts and questions, (B, width) -> memories, (B, width), and gates before dropout, (B, E, S)."""
        items, sizes = facts.data, tuple(facts.batch_sizes.tolist())
        at = item_positions(facts)  # both (R,): rows, and positions in the row
        memory = question[facts.sorted_indices]
        questions = self.attention.project_question(items, memory[at[0]])
        projected = self.reader.project(items)
        gates, memories = [], []
        for _ in range(self.episodes):
            scores = self.attention(questions, items, memory[at[0]])  # (R,)
            nothing = scores.new_full((len(memory), len(sizes)), -torch.inf)
            gates.append(self.gate(nothing.index_put(at, scores)))  # (B, S)
            memory = self.reader(projected, self.dropout(gates[-1][at]), memory, sizes)
            memories.append(memory)
        output = self.memories(torch.stack(memories, 1))[1].squeeze(0)  # (B, width)
        back = facts.unsorted_indices
        return output[back], torch.stack(gates, 1)[back]


def _compare(facts: Tensor, others: Tensor) -> Tensor:
    """Both (R, width) -> (R, 2 width)."""
    return torch.cat([facts * others, (facts - others).abs()], dim=-1)
