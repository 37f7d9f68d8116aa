"""DMN over word vectors, the baseline of the BERT-DMN paper (its sections 3.1 and 5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_packed_sequence

from telerank.models.pairs.pair import (
    PairBatch,
    drop_items,
    gather_tokens,
    group_means,
    pack,
    with_first_item,
)
from telerank.models.precision import in_float32
from telerank.models.rerankers.episodic import PAPER_HEAD, EpisodicMemory, find_gate, read_items
from telerank.models.rerankers.kinds import BERT_DMN_PAPER
from telerank.models.rerankers.word_ranker import PairSides, WordKind, make_embedding, split_sides


class Dmn(nn.Module):
    """W [Q; m] + b, a logit.

    A GRU reads the passage word by word; its states at the ends of sentences are the facts, or all states if
    the passage is a single sentence. Q is the last state of another GRU over the question, and m the output
    of the episodic memory. Dropout is applied before both GRUs, to the attention gates, and before W.

    ``vectors`` (V, E) are rows as :class:`telerank.models.pairs.words.Words` has them; they are trained, too,
    unless ``frozen``. ``gate`` is one of :data:`telerank.models.rerankers.episodic.GATES`; with
    ``authors`` the GRU reads the means of the sentences' vectors, and all of its states are facts.
    """

    def __init__(
        self,
        vectors: Tensor,
        hidden: int = 256,
        *,
        episodes: int = 4,
        dropout: float = 0.1,
        gate: str = "softmax",
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.words = make_embedding(vectors, frozen=frozen)
        self.authors = find_gate(gate).of_authors
        self.passage = nn.GRU(vectors.shape[1], hidden, batch_first=True, bidirectional=self.authors)
        self.question = nn.GRU(vectors.shape[1], hidden, batch_first=True)
        self.memory = EpisodicMemory(hidden, episodes=episodes, dropout=dropout, gate=gate)
        self.answer = nn.Linear(2 * hidden, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> logits, (B,)."""
        return self._answer(split_sides(batch))[0]

    def with_gates(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Logits, (B,), and the attention to each sentence, (B, episodes, S), summed over its facts."""
        texts = split_sides(batch)
        logits, gates, facts = self._answer(texts)  # facts: the sentence of each, (B, facts)
        most = max(1, int(texts.sentences.max()) + 1)
        members = (facts.unsqueeze(-1) == torch.arange(most, device=facts.device)).to(gates.dtype)
        return logits, gates @ members  # (B, E, facts) @ (B, facts, S)

    @in_float32
    def _answer(self, texts: PairSides) -> tuple[Tensor, Tensor, Tensor]:
        facts, mask, numbers = self._read_means(texts) if self.authors else self._read_words(texts)
        query = pack(self.words(texts.query), texts.query_mask)
        question = self.question(query if self.authors else drop_items(query, self.dropout))[1][-1]
        memory, gates = self.memory(pack(facts, mask), question)
        logits: Tensor = self.answer(self.dropout(torch.cat([question, memory], dim=-1)))
        return logits.squeeze(-1), gates, numbers

    def _read_words(self, texts: PairSides) -> tuple[Tensor, Tensor, Tensor]:
        """The facts, (B, facts, hidden), their mask, (B, facts), and the sentence of each, or -1."""
        states = self._read(self.words(texts.passage), texts.passage_mask)  # (B, T, hidden)
        # the last word of each sentence, or all words of a single sentence
        sentences = texts.sentences
        following = torch.cat([sentences[:, 1:], torch.full_like(sentences[:, :1], -1)], dim=1)
        single = sentences.amax(1, keepdim=True) == 0
        chosen = with_first_item(texts.passage_mask & (single | (sentences != following)))
        facts, mask = gather_tokens(states, chosen)
        return facts, mask, gather_tokens(texts.sentences.unsqueeze(-1) + 1, chosen)[0].squeeze(-1) - 1

    def _read_means(self, texts: PairSides) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`_read_words`, one fact for each sentence."""
        means, mask = group_means(self.words(texts.passage), texts.sentences)  # (B, S, E), (B, S)
        numbers = torch.arange(mask.shape[1], device=mask.device).where(mask, -1)
        return self._read(means, mask), mask, numbers

    def _read(self, items: Tensor, mask: Tensor) -> Tensor:
        """(B, L, E) -> (B, L, hidden)."""
        states = read_items(self.passage, drop_items(pack(items, mask), self.dropout))
        return pad_packed_sequence(states, batch_first=True, total_length=mask.shape[1])[0]


KIND = WordKind(
    Dmn,
    training={**BERT_DMN_PAPER, "model": {"head": PAPER_HEAD}},
    reads_sentences=True,
    gates=Dmn.with_gates,
)
