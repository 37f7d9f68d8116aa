"""The episodic memory of Dynamic Memory Networks (Kumar et al. 2016; Xiong et al. 2016; BERT-DMN, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from telerank.errors import ModelError
from telerank.models.pairs.pair import item_positions

PAPER_HEAD: Mapping[str, Any] = {"hidden": 256, "episodes": 4, "dropout": 0.1}
"""Settings of BERT-DMN's section 5, for both kinds with an episodic memory."""


class AttentionGate(nn.Module):
    """The score of a fact s: W_2 tanh(W_1 z + b_1), as in Xiong et al.; ``bias`` is added to it.

    z = [s ∘ q; |s - q|; s ∘ m; |s - m|]. With ``is_kumar`` it has what Kumar et al. compare: s, m, q, s W_b q
    and s W_b m, too, 7 width + 2 features in all; one W_b serves the question and the memory. The features of
    the question are the same in every episode (:meth:`project_question`).
    """

    def __init__(self, width: int, *, bias: bool, is_kumar: bool = False) -> None:
        super().__init__()
        compared = 3 * width + 1 if is_kumar else 2 * width
        self.question = nn.Linear(compared + width * is_kumar, width)  # W_1 on q and what has it; b_1
        self.memory = nn.Linear(compared, width, bias=False)  # W_1 on m and what has it
        self.bilinear = nn.Linear(width, width, bias=False) if is_kumar else None  # W_b, transposed
        self.score = nn.Linear(width, 1, bias=bias)  # W_2; b_2

    def project_question(self, facts: Tensor, questions: Tensor) -> Tensor:
        """Facts, and the question of each, both (R, width) -> (R, width)."""
        features = self._compare(facts, questions)
        projected: Tensor = self.question(
            features if self.bilinear is None else torch.cat([facts, features], dim=-1)
        )
        return projected

    def forward(self, projected: Tensor, facts: Tensor, memories: Tensor) -> Tensor:
        """Projected questions, facts, and the memory of each, all (R, width) -> scores, (R,)."""
        hidden = torch.tanh(projected + self.memory(self._compare(facts, memories)))
        scores: Tensor = self.score(hidden).squeeze(-1)
        return scores

    def _compare(self, facts: Tensor, others: Tensor) -> Tensor:
        """Both (R, width) -> (R, 2 width), or (R, 3 width + 1) as Kumar et al."""
        features = torch.cat([facts * others, (facts - others).abs()], dim=-1)
        if self.bilinear is None:
            return features
        product = (self.bilinear(facts) * others).sum(-1, keepdim=True)  # (R, 1)
        return torch.cat([others, features, product], dim=-1)


class GateKind(NamedTuple):
    """How an attention gate is computed: the scores of facts, and what makes gates, (B, S), of them.

    ``of_authors``: the whole memory is that of the authors' program.
    """

    scores: Callable[..., nn.Module]
    activation: Callable[[Tensor], Tensor]
    of_authors: bool = False


_softmax = partial(torch.softmax, dim=-1)  # a loaded re-ranker pickles: no lambda

GATES: Mapping[str, GateKind] = {
    "softmax": GateKind(partial(AttentionGate, bias=False), _softmax),  # which would ignore a bias
    "sigmoid": GateKind(partial(AttentionGate, bias=True), torch.sigmoid),
    "kumar": GateKind(partial(AttentionGate, bias=True, is_kumar=True), torch.sigmoid),
    "authors": GateKind(partial(AttentionGate, bias=True), _softmax, of_authors=True),
}
"""Xiong et al.'s gates (``softmax``) share one attention among the facts, Kumar et al.'s (``kumar``) treat
each fact by itself; ``sigmoid`` does so with the features of Xiong et al. BERT-DMN's equation 1 is Xiong et
al.'s, while its text refers to Kumar et al. for the gate; gates are the relative importance of sentences (its
section 7) with a softmax only.

``authors`` is the memory of the authors' program (github.com/mrjleo/ranking-models), which differs in more:

=============  =====================================  ===========================================
what           the text, all other gates              ``authors``
=============  =====================================  ===========================================
facts          states of a GRU                        states of two, forward and backward, added
attention GRU  reads [s_t; m], begins with 0          reads s_t, begins with m
next memory    its last state                         ReLU(W [m; last state; Q])
output         the last state of a GRU over memories  the last memory
dropout        facts, query, gates, answer            facts, answer
=============  =====================================  ===========================================
"""


class AttentionGru(nn.Module):
    """The GRU whose update gate is an attention gate (Xiong et al. 2016; BERT-DMN's equation 1).

    h_t = g_t h'_t + (1 - g_t) h_(t-1), with h_0 = 0 and the candidate state of a GRU for h':

    r_t = sigmoid(W_r c_t + U_r h_(t-1) + b_r) and h'_t = tanh(W c_t + r_t ∘ U h_(t-1) + b), with candidate
    facts c_t = [s_t; m]. The share of the facts is the same in every episode (:meth:`project`), the share of
    the memory is the same in every step.

    With ``from_memory`` c_t = s_t, h_0 = m, and h'_t = tanh(W c_t + r_t ∘ (U h_(t-1) + b)).
    """

    def __init__(self, width: int, *, from_memory: bool = False) -> None:
        super().__init__()
        self.fact = nn.Linear(width, 2 * width, bias=not from_memory)  # W_r and W on s; b_r and b
        self.memory = None if from_memory else nn.Linear(width, 2 * width, bias=False)  # W_r and W on m
        self.state = nn.Linear(width, 2 * width, bias=from_memory)  # U_r and U

    def project(self, facts: Tensor) -> Tensor:
        """The share of the facts, (R, width) -> (R, 2 width)."""
        projected: Tensor = self.fact(facts)
        return projected

    def forward(self, projected: Tensor, gates: Tensor, memory: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Projected facts, gates, (R,), and memories, (B, width) -> last states, (B, width), in sorted order.

        ``sizes`` has the rows of each step.
        """
        weight, inputs = self.state.weight, projected
        first: Tensor = memory.to(weight.dtype)
        bias: Tensor = self.state.bias
        if self.memory is not None:
            of_memory = self.memory(memory)  # (B, 2 width)
            inputs = projected + torch.cat([of_memory[:size] for size in sizes])  # (R, 2 width)
            first, bias = torch.zeros_like(first), weight.new_zeros(len(weight))
        with torch.autocast(inputs.device.type, enabled=False):  # in the precision of the weights
            rows = inputs.to(weight.dtype), gates.to(weight.dtype)
            states: Tensor = _Recurrence.apply(*rows, first, weight, bias, sizes)  # type: ignore[no-untyped-call]
        return states


class _Recurrence(torch.autograd.Function):
    """The steps, with their derivative written out: U's gradient is one product over all of them.

    This takes half the time of autograd, which records every step.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        """Inputs, (R, 2 width), gates, (R,), h_0, (B, width), [U_r; U], its bias, the rows of each step."""
        inputs, gates, first, weight, bias, sizes = arguments
        state: Tensor = first.clone()
        width = state.shape[1]
        before, reset, turned, candidate = (torch.empty_like(inputs[:, :width]) for _ in range(4))
        start = 0
        for size in sizes:
            step = slice(start, start + size)
            start += size
            old = before[step].copy_(state[:size])
            from_state = torch.addmm(bias, old, weight.T)  # (size, 2 width)
            r = torch.add(inputs[step, :width], from_state[:, :width], out=reset[step]).sigmoid_()
            u = turned[step].copy_(from_state[:, width:])
            h = torch.addcmul(inputs[step, width:], r, u, out=candidate[step]).tanh_()
            state[:size] += gates[step].unsqueeze(1) * (h - old)
        ctx.save_for_backward(gates, weight, before, reset, turned, candidate)
        ctx.sizes = sizes
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
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
        return to_inputs, to_gates, gradient, to_state.T @ before, to_state.sum(0), None


class EpisodicMemory(nn.Module):
    """Reads the facts in ``episodes``, each guided by the memory of the previous episode.

    m^0 is the question; in episode i an attention GRU reads the candidate facts [s_t; m^(i-1)], and its last
    state is m^i. The output is the last state of a GRU over m^1 … m^E. Dropout is applied to the gates.
    ``gate`` is one of :data:`GATES`, which says how that of the authors' program differs. Raises ModelError
    if there is no such gate, or no episode.
    """

    def __init__(self, width: int, *, episodes: int = 4, dropout: float = 0.1, gate: str = "softmax") -> None:
        super().__init__()
        if not isinstance(episodes, int) or episodes < 1:
            raise ModelError(f"a memory needs a whole number of episodes, at least one, got {episodes}")
        kind = find_gate(gate)
        self.episodes, self.gate, authors = episodes, kind.activation, kind.of_authors
        self.attention: Any = kind.scores(width)
        self.reader = AttentionGru(width, from_memory=authors)
        self.update = nn.Linear(3 * width, width) if authors else None  # W on [m; last state; Q]
        self.memories = None if authors else nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.0 if authors else dropout)

    def forward(self, facts: PackedSequence, question: Tensor) -> tuple[Tensor, Tensor]:
        """Facts and questions, (B, width) -> memories, (B, width), and gates before dropout, (B, E, S)."""
        items, sizes = facts.data, tuple(facts.batch_sizes.tolist())
        at = item_positions(facts)  # both (R,): rows, and positions in the row
        # with several threads, gradients of an index with repeated rows are added in any order; those of
        # index_select are not
        memory = ordered = question[facts.sorted_indices]
        questions = self.attention.project_question(items, memory.index_select(0, at[0]))
        projected = self.reader.project(items)
        gates, memories = [], []
        for _ in range(self.episodes):
            scores = self.attention(questions, items, memory.index_select(0, at[0]))  # (R,)
            nothing = scores.new_full((len(memory), len(sizes)), -torch.inf)
            gates.append(self.gate(nothing.index_put(at, scores)))  # (B, S)
            state = self.reader(projected, self.dropout(gates[-1][at]), memory, sizes)
            if self.update is not None:
                state = torch.relu(self.update(torch.cat([memory, state, ordered], dim=-1)))
            memory = state
            memories.append(memory)
        output = memory  # (B, width)
        if self.memories is not None:
            output = self.memories(torch.stack(memories, 1))[1].squeeze(0)
        back = facts.unsorted_indices
        return output[back], torch.stack(gates, 1)[back]


def find_gate(name: str) -> GateKind:
    """The gate of that name; raises ModelError if it is none of :data:`GATES`."""
    if name not in GATES:
        raise ModelError(f"no attention gate is called {name!r}; there are: {', '.join(GATES)}")
    return GATES[name]


def read_items(gru: nn.GRU, items: PackedSequence) -> PackedSequence:
    """The state at each item, (R, H) -> (R, width); of a GRU in both directions, the sum of both."""
    states: PackedSequence = gru(items)[0]
    if not gru.bidirectional:
        return states
    forward, backward = states.data.chunk(2, dim=-1)
    return PackedSequence(forward + backward, *states[1:])
