"""Co-PACRR: the strongest matches of words and n-grams, with their context and place (Hui et al. 2018)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.errors import ModelError
from telerank.models.pairs.pair import QUERY, PairBatch
from telerank.models.pairs.words import UNKNOWN, Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import Loaded, ModelExplanation, Shape
from telerank.models.rerankers.word_ranker import PairSides, WordKind, make_embedding, split_sides

CASCADE = (0.25, 0.5, 0.75, 1.0)
"""The parts of a passage, from its beginning, of which the strongest signals are taken."""
LONGEST = 3
"""Words of the longest n-grams."""
WINDOW = 4
"""Words before and behind a place that are its context."""


class CoPacrr(nn.Module):
    """A score without bounds, by two layers over the signals of each query word, one after the other.

    S_ij is the cosine of query word i and passage word j, C^1 = S, and C^n, for n = 2 and 3, the greatest of
    ``filters`` filters of n × n over S (relu). Of each row of each C^n the ``strongest`` values are taken,
    from the first quarter of the passage, its half, three quarters and the whole (cascade), each with the
    cosine of the query's mean vector and the mean of the words from four before to four behind that place
    (disambiguation). A query has ``rows`` rows, which come in random order while the model is trained
    (shuffling). An unknown word is similar to no word.

    A softmax over the query of the idf of its words is one more signal in the paper. A model of two texts
    knows no idf: a weight of each word is learned in its place, from 0. Quarters are those of the passage;
    the authors' program, whose documents all have one length, takes them of that. ``vectors`` (V, E) are rows
    as :class:`telerank.models.pairs.words.Words` has them, which are not trained, as in the paper, if
    ``frozen``.
    """

    def __init__(
        self,
        vectors: Tensor,
        hidden: int = 32,
        *,
        rows: int = 16,
        filters: int = 32,
        strongest: int = 3,
        frozen: bool = True,
    ) -> None:
        super().__init__()
        if min(rows, strongest, filters) < 1:
            sizes = f"{rows}, {strongest} and {filters}"
            raise ModelError(f"rows, strongest and filters must be at least 1, got {sizes}")
        self.rows, self.strongest = rows, strongest
        self.words = make_embedding(vectors, frozen=frozen)
        self.importance = make_embedding(torch.zeros(len(vectors), 1), frozen=False)
        self.convolutions = nn.ModuleList(nn.Conv2d(1, filters, length) for length in range(2, LONGEST + 1))
        signals = 1 + 2 * strongest * len(CASCADE) * LONGEST
        self.layers = nn.Sequential(
            nn.Linear(rows * signals, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> scores, (B,)."""
        signals = self.signals(batch)
        if self.training:
            signals = signals[:, torch.randperm(self.rows).to(signals.device)]  # on each device the same
        return self.score(signals)

    @in_float32
    def score(self, signals: Tensor) -> Tensor:
        """Signals (B, rows, S) -> scores, (B,)."""
        scores: Tensor = self.layers(signals.flatten(1)).squeeze(-1)
        return scores

    @in_float32
    def signals(self, batch: PairBatch) -> Tensor:
        """What is known of each query word, (B, rows, S); rows without a word are 0."""
        texts = split_sides(batch)
        if texts.query.shape[1] > self.rows:
            raise ModelError(
                f"a co-pacrr of {self.rows} query words was given {texts.query.shape[1]}: "
                f"max_query must be {self.rows} at most, or head.rows more"
            )
        missing = self.rows - texts.query.shape[1], max(self.strongest - texts.passage.shape[1], 0)
        query = functional.pad(self._vectors(texts.query, texts.query_mask), (0, 0, 0, missing[0]))
        passage = functional.pad(self._vectors(texts.passage, texts.passage_mask), (0, 0, 0, missing[1]))
        unit = functional.normalize(passage, dim=-1)
        similar = functional.normalize(query, dim=-1) @ unit.transpose(1, 2)  # (B, rows, T)
        around = functional.avg_pool1d(
            passage.transpose(1, 2), 2 * WINDOW + 1, 1, WINDOW
        )  # a cosine does not depend on what a sum is divided by
        context = functional.cosine_similarity(query.sum(1).unsqueeze(-1), around, dim=1)  # (B, T)
        maps = [similar]
        for behind, convolution in enumerate(self.convolutions, 1):
            padding = 2 * (behind // 2, behind - behind // 2)  # as many zeros around as keep the size
            filtered = torch.relu(convolution(functional.pad(similar.unsqueeze(1), padding)))
            maps.append(filtered.amax(1))
        lengths = texts.passage_mask.sum(1)
        parts = [self._strongest(each, context, lengths, share) for each in maps for share in CASCADE]
        mask = functional.pad(texts.query_mask, (0, missing[0]))
        signals = torch.cat([self._weights(texts, missing[0]), *parts], dim=-1)
        return signals * mask.unsqueeze(-1)

    def _vectors(self, rows: Tensor, mask: Tensor) -> Tensor:
        """(B, L) -> (B, L, E), 0 for what is no known word."""
        vectors: Tensor = self.words(rows) * (mask & (rows != UNKNOWN)).unsqueeze(-1)
        return vectors

    def _weights(self, texts: PairSides, missing: int) -> Tensor:
        """The softmax of the words' weights over each query, (B, rows, 1)."""
        weights = self.importance(texts.query).squeeze(-1).masked_fill(~texts.query_mask, -torch.inf)
        shares = weights.softmax(-1).nan_to_num()  # of a query without words: 0
        return functional.pad(shares, (0, missing)).unsqueeze(-1)

    def _strongest(self, signals: Tensor, context: Tensor, lengths: Tensor, share: float) -> Tensor:
        """The strongest signals in the first part of passages, and contexts: (B, rows, 2 · strongest)."""
        columns = torch.arange(signals.shape[2], device=signals.device)
        inside = columns < torch.ceil(lengths * share).unsqueeze(-1)  # (B, T)
        masked = signals.masked_fill(~inside[:, None], -torch.inf)
        # of equal signals, as of a word that is there twice, the first: topk takes any
        ordered, order = masked.sort(dim=-1, descending=True, stable=True)
        values, at = ordered[..., : self.strongest], order[..., : self.strongest]
        contexts = context[:, None].expand_as(signals).gather(2, at)
        is_there = torch.isfinite(values)
        return torch.cat([values.where(is_there, 0.0), contexts.where(is_there, 0.0)], dim=-1)

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:
        """What the score loses without the signals of each word of the query, in a batch of one pair."""
        signals = self.signals(batch)
        names = ("", "(a word without a vector)", *words.vocabulary)  # by row
        rows = batch.input_ids[0, batch.parts[0] == QUERY].tolist()
        without = signals.repeat(len(rows), 1, 1)
        for number in range(len(rows)):
            without[number, number] = 0
        losses = (self.score(signals) - self.score(without)).tolist() if rows else []
        values = tuple(zip(losses, (names[row] for row in rows), strict=True))
        return ModelExplanation("what single words of the query add, in all", values)


@dataclass(frozen=True)
class CoPacrrKind(WordKind):
    """A model that has a row for each word of the longest query."""

    def create(
        self, start: Path, shape: Shape, dropout: float | None, keep: Collection[str] | None, /
    ) -> Loaded:
        model, words = super().create(start, shape, dropout, keep)
        rows: Any = model.rows
        if shape.max_query is None or shape.max_query > rows:
            most = shape.max_query or "any number of"
            raise ModelError(f"a co-pacrr of {rows} rows reads no queries of {most} words: set max_query")
        return model, words


KIND = CoPacrrKind(
    CoPacrr,
    training={
        "model": {"max_query": 16, "head": {"hidden": 32, "rows": 16, "filters": 32}},
        "loss": {"objective": "softmax"},
        "optimisation": {
            "epochs": 10.0,
            "batch": 16,
            "optimiser": "adam",
            "learning_rate": 0.001,
            "weight_decay": 0.0,
            "warm_up": 0,
            "schedule": "constant",
        },
    },
    explain=CoPacrr.explain,
)
