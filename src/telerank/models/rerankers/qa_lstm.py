"""QA-LSTM with attention (Tan et al. 2016), a baseline of BERT-DMN (its section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_packed_sequence

from telerank.errors import ModelError
from telerank.models.pairs.pair import PASSAGE, PairBatch, pack, with_first_item
from telerank.models.pairs.words import Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import BERT_DMN_PAPER, ModelExplanation
from telerank.models.rerankers.word_ranker import WordKind, make_embedding, split_sides


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The largest of each dimension, (B, L, H) and (B, L) -> (B, H)."""
    return states.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(1)


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of each dimension, (B, L, H) and (B, L) -> (B, H)."""
    return (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"max": max_pool, "mean": mean_pool}
"""BERT-DMN's paper names both, and does not say which it uses; the program of its authors has the largest."""


class QaLstm(nn.Module):
    """cos(o_q, o_a), between -1 and 1: of the pooled states of both texts from one bidirectional LSTM.

    Before pooling, the passage's states h_t are multiplied by attention over its words, s_t ∝ exp(w ·
    tanh(W_am h_t + W_qm o_q)). Dropout is applied to both pooled vectors. ``hidden`` is the width of each
    direction, ``pooling`` is one of :data:`POOLINGS`.

    ``vectors`` (V, E) are rows as :class:`telerank.models.pairs.words.Words` has them; they are trained, too,
    unless ``frozen``.
    """

    def __init__(
        self,
        vectors: Tensor,
        hidden: int = 256,
        *,
        dropout: float = 0.5,
        pooling: str = "max",
        frozen: bool = False,
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ModelError(f"no pooling is called {pooling!r}; there are: {', '.join(POOLINGS)}")
        self.pool = POOLINGS[pooling]
        self.words = make_embedding(vectors, frozen=frozen)
        self.lstm = nn.LSTM(vectors.shape[1], hidden, batch_first=True, bidirectional=True)
        self.state = nn.Linear(2 * hidden, 2 * hidden, bias=False)  # W_am
        self.query = nn.Linear(2 * hidden, 2 * hidden, bias=False)  # W_qm
        self.score = nn.Linear(2 * hidden, 1, bias=False)  # w
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> cosines, (B,)."""
        return self.with_attention(batch)[0]

    @in_float32
    def with_attention(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Cosines, (B,), and s_t at each passage token, (B, L): over a passage the attention sums to 1."""
        texts = split_sides(batch)
        query_mask, mask = with_first_item(texts.query_mask), with_first_item(texts.passage_mask)
        query_states, states = self._read(texts.query, query_mask), self._read(texts.passage, mask)
        query = self.pool(query_states, query_mask)  # (B, 2 hidden)
        scores = self.score(torch.tanh(self.state(states) + self.query(query).unsqueeze(1))).squeeze(-1)
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)  # (B, T)
        passage = self.pool(states * weights.unsqueeze(-1), mask)
        cosines = functional.cosine_similarity(self.dropout(query), self.dropout(passage))
        attention = weights.new_zeros(batch.parts.shape)
        attention[batch.parts == PASSAGE] = weights[texts.passage_mask]
        return cosines, attention

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:
        """The attention over the passage's words, in a batch of one pair."""
        read = batch.parts[0] == PASSAGE
        weights, rows = self.with_attention(batch)[1][0, read], batch.input_ids[0, read]
        names = ("", "(a word without a vector)", *words.vocabulary)  # by row
        values = zip(weights.tolist(), (names[row] for row in rows.tolist()), strict=True)
        return ModelExplanation("attention over the words", tuple(values))

    def _read(self, rows: Tensor, mask: Tensor) -> Tensor:
        """(B, L) -> (B, L, 2 hidden)."""
        outputs, _ = self.lstm(pack(self.words(rows), mask))
        states: Tensor = pad_packed_sequence(outputs, batch_first=True)[0]
        return states


KIND = WordKind(
    QaLstm,
    training={
        **BERT_DMN_PAPER,
        "model": {"head": {"hidden": 256, "dropout": 0.5}},
        "loss": {"objective": "margin", "of": "logit"},
    },
    explain=QaLstm.explain,
)
