"""BERT-DMN: a Dynamic Memory Network over an encoder's outputs for a pair (Leonhardt et al. 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.models.pairs.pair import PairFeatures, drop_items, pack
from telerank.models.rerankers.episodic import PAPER_HEAD, EpisodicMemory, find_gate, read_items
from telerank.models.rerankers.kinds import BERT_DMN_PAPER
from telerank.models.rerankers.transformer_ranker import EncoderKind


class DmnHead(nn.Module):
    """W [c; Q; m] + b: the logit of equation 3, whose sigmoid is the paper's score R(q, p).

    The facts are the states of a GRU over the means of the sentences' outputs, Q is the last state of another
    over the query's outputs, m the output of the episodic memory, c that of the first token (section 3.2).
    Dropout is applied before both GRUs, to the attention gates, and before W. ``gate`` is one of
    :data:`telerank.models.rerankers.episodic.GATES`.
    """

    def __init__(
        self,
        width: int,
        hidden: int = 256,
        *,
        episodes: int = 4,
        dropout: float = 0.1,
        gate: str = "softmax",
    ) -> None:
        super().__init__()
        self.authors = find_gate(gate).of_authors
        self.sentences = nn.GRU(width, hidden, batch_first=True, bidirectional=self.authors)
        self.query = nn.GRU(width, hidden, batch_first=True)
        self.memory = EpisodicMemory(hidden, episodes=episodes, dropout=dropout, gate=gate)
        self.answer = nn.Linear(width + 2 * hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: PairFeatures) -> Tensor:
        """Features -> logits, (B,)."""
        return self.with_gates(features)[0]

    def with_gates(self, features: PairFeatures) -> tuple[Tensor, Tensor]:
        """Logits, (B,), and how much each episode attends to each sentence, (B, episodes, S).

        Gates are zero for padding. Those of an episode sum to 1 with the gate "softmax"; with "sigmoid" each
        is between 0 and 1.
        """
        sentences = drop_items(pack(features.sentences, features.sentence_mask), self.dropout)
        query = pack(features.query, features.query_mask)
        question = self.query(query if self.authors else drop_items(query, self.dropout))[1][
            -1
        ]  # (B, hidden)
        memory, gates = self.memory(read_items(self.sentences, sentences), question)
        state = self.dropout(torch.cat([features.cls, question, memory], dim=-1))
        logits: Tensor = self.answer(state).squeeze(-1)  # (B, 1) -> (B,)
        mask = features.sentence_mask.unsqueeze(1)  # (B, 1, S)
        return logits, functional.pad(gates, (0, mask.shape[-1] - gates.shape[-1])) * mask


KIND = EncoderKind(
    DmnHead,
    training={**BERT_DMN_PAPER, "model": {"start": "bert-base-uncased", "head": PAPER_HEAD}},
    reads_sentences=True,
    gates=lambda model, batch: model.head.with_gates(model.features(batch)),
)
