"""The episodic memory of Dynamic Memory Networks (Kumar et al. 2016; Xiong et al. 2016; BERT-DMN, 3.1).

======  ==============================================================================================
``B``   pairs of a batch
``S``   facts of the pair that has most: sentences, mostly
``R``   facts of all pairs
``E``   episodes
======  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from telerank.errors import ModelError
from telerank.models.pairs.ragged import item_positions
from telerank.models.rerankers.attention_gru import AttentionGru

GATES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "softmax": partial(torch.softmax, dim=-1),  # a loaded re-ranker pickles: no lambda
    "sigmoid": torch.sigmoid,
}
"""What makes gates of scores, (B, S): Xiong et al.'s shares one attention out over the facts, Kumar et al.'s
opens for each fact by itself. BERT-DMN's equation 1 is Xiong et al.'s while its text refers to Kumar et al.
for the gate; that gates say the relative importance of sentences (its section 7) is true of the first."""


PAPER_HEAD: Mapping[str, Any] = {"hidden": 256, "episodes": 4, "dropout": 0.1}
"""Settings of BERT-DMN's section 5, for both kinds with an episodic memory."""


class AttentionGate(nn.Module):
    """The score of a fact s: W_2 tanh(W_1 [s ∘ q; |s - q|; s ∘ m; |s - m|] + b_1), as in Xiong et al.

    Kumar et al. have these features and more. Those of the question are the same in every episode
    (:meth:`asked`).
    """

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.question = nn.Linear(2 * width, width)  # W_1 on what compares with q; b_1
        self.memory = nn.Linear(2 * width, width, bias=False)  # W_1 on what compares with m
        self.score = nn.Linear(width, 1, bias=bias)  # W_2

    def asked(self, facts: Tensor, questions: Tensor) -> Tensor:
        """Facts, and the question of each, both (R, width) -> (R, width)."""
        asked: Tensor = self.question(_compared(facts, questions))
        return asked

    def forward(self, asked: Tensor, facts: Tensor, memories: Tensor) -> Tensor:
        """Scores, (R,)."""
        hidden = torch.tanh(asked + self.memory(_compared(facts, memories)))
        scores: Tensor = self.score(hidden).squeeze(-1)
        return scores


class EpisodicMemory(nn.Module):
    """``episodes`` readings of the facts, each guided by what the one before remembered.

    m^0 is the question; in episode i an attention GRU reads the candidate facts [s_t; m^(i-1)], and its last
    state is m^i. The output is the last state of a GRU over m^1 … m^E. Dropout is over the gates; ``gate`` is
    one of :data:`GATES`.

    Raises
    ------
    ModelError
        where there is no such gate, or no episode.
    """

    def __init__(self, width: int, *, episodes: int = 4, dropout: float = 0.1, gate: str = "softmax") -> None:
        super().__init__()
        if gate not in GATES:
            raise ModelError(f"no attention gate is called {gate!r}; there are: {', '.join(GATES)}")
        if not isinstance(episodes, int) or episodes < 1:
            raise ModelError(f"a memory needs a whole number of episodes, at least one, got {episodes}")
        self.episodes, self.gate = episodes, GATES[gate]
        # a softmax does not see what is added to all scores
        self.attention = AttentionGate(width, bias=gate != "softmax")
        self.reader = AttentionGru(width)
        self.memories = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, facts: PackedSequence, question: Tensor) -> tuple[Tensor, Tensor]:
        """Facts and questions, (B, width) -> memories, (B, width), and gates before dropout, (B, E, S)."""
        items, sizes = facts.data, tuple(facts.batch_sizes.tolist())
        at = item_positions(facts)  # both (R,): rows, and numbers in the row
        memory = question[facts.sorted_indices]
        asked = self.attention.asked(items, memory[at[0]])
        projected = self.reader.projected(items)
        gates, memories = [], []
        for _ in range(self.episodes):
            scores = self.attention(asked, items, memory[at[0]])  # (R,)
            nothing = scores.new_full((len(memory), len(sizes)), -torch.inf)
            gates.append(self.gate(nothing.index_put(at, scores)))  # (B, S)
            memory = self.reader(projected, self.dropout(gates[-1][at]), memory, sizes)
            memories.append(memory)
        output = self.memories(torch.stack(memories, 1))[1].squeeze(0)  # (B, width)
        back = facts.unsorted_indices
        return output[back], torch.stack(gates, 1)[back]


def _compared(facts: Tensor, others: Tensor) -> Tensor:
    """Both (R, width) -> (R, 2 width)."""
    return torch.cat([facts * others, (facts - others).abs()], dim=-1)
