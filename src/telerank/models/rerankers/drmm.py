"""DRMM: how strongly each query word is matched, as a histogram (Guo et al. 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.errors import ModelError
from telerank.models.pairs.pair import QUERY, PairBatch
from telerank.models.pairs.words import UNKNOWN, Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import ModelExplanation
from telerank.models.rerankers.word_ranker import WordKind, make_embedding, split_sides


class Drmm(nn.Module):
    """The sum over query words of g_i z_i, between -1 and 1.

    z_i is a network of two layers (tanh, ``hidden`` units) over log(1 + h_i), h_i being how many words of
    the passage have a cosine with word i in each of ``bins`` - 1 equal parts of -1 to 1, and how many are the
    word itself. g_i is the softmax, over the query's words, of w_g · x_i (the term gating by vectors of the
    paper; gating by idf needs statistics that a model of two texts does not have). An unknown word is similar
    to no word, and has no share of the softmax.

    Histograms have no gradients, so that ``vectors`` (V, E), rows as
    :class:`telerank.models.pairs.words.Words` has them, are not trained if ``frozen``, as in the paper, and
    else learn through the gates alone. Raises ModelError if ``bins`` is less than 2.
    """

    def __init__(self, vectors: Tensor, hidden: int = 5, *, bins: int = 30, frozen: bool = True) -> None:
        super().__init__()
        if bins < 2:
            raise ModelError(f"bins must be at least 2, got {bins}")
        self.bins = bins
        self.words = make_embedding(vectors, frozen=frozen)
        self.layers = nn.Sequential(nn.Linear(bins, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Tanh())
        self.gate = nn.Linear(vectors.shape[1], 1, bias=False)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> scores, (B,)."""
        return self.shares(batch).sum(1)

    @in_float32
    def shares(self, batch: PairBatch) -> Tensor:
        """g_i z_i of each query word, (B, N); 0 for unknown words and padding."""
        texts = split_sides(batch)
        query = self.words(texts.query)  # (B, N, E)
        known = texts.query_mask & (texts.query != UNKNOWN)
        lowest = torch.finfo(query.dtype).min  # -inf would be nan, and its gradients, where no word is known
        gates = self.gate(query).squeeze(-1).masked_fill(~known, lowest).softmax(-1)
        with torch.no_grad():
            unit = functional.normalize(self.words(texts.passage), dim=-1)
            cosines = functional.normalize(query, dim=-1) @ unit.transpose(1, 2)  # (B, N, T)
            part = ((cosines + 1) / 2 * (self.bins - 1)).long().clamp(0, self.bins - 2)
            same = texts.query.unsqueeze(2) == texts.passage.unsqueeze(1)
            part = part.masked_fill(same, self.bins - 1)
            counted = (texts.passage_mask & (texts.passage != UNKNOWN)).to(cosines.dtype)
            counts = cosines.new_zeros(*cosines.shape[:2], self.bins)
            counts.scatter_add_(2, part, counted.unsqueeze(1).expand_as(cosines))
        strengths = self.layers(counts.log1p()).squeeze(-1)  # (B, N)
        shares: Tensor = (gates * strengths).masked_fill(~known, 0.0)
        return shares

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:
        """What each word of the query adds to the score, in a batch of one pair."""
        names = ("", "(a word without a vector)", *words.vocabulary)  # by row
        rows = batch.input_ids[0, batch.parts[0] == QUERY].tolist()
        shares = self.shares(batch)[0].tolist()
        values = tuple((share, names[row]) for share, row in zip(shares, rows, strict=False))
        return ModelExplanation("the score is the sum of", values)


KIND = WordKind(
    Drmm,
    training={
        "model": {"head": {"hidden": 5, "bins": 30}},
        "loss": {"objective": "margin", "of": "logit"},
        "optimisation": {
            "epochs": 10.0,
            "batch": 20,
            "optimiser": "adam",
            "learning_rate": 0.001,
            "weight_decay": 0.0,
            "warm_up": 0,
            "schedule": "constant",
        },
    },
    explain=Drmm.explain,
)
