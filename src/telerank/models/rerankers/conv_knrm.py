"""Conv-KNRM: kernel pooling over the similarities of n-grams of several lengths (Dai et al. 2018)."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.errors import ModelError
from telerank.models.pairs.pair import PairBatch
from telerank.models.pairs.words import UNKNOWN, Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import ModelExplanation
from telerank.models.rerankers.knrm import MEANS, TRAINING, pool_kernels
from telerank.models.rerankers.word_ranker import WordKind, make_embedding, split_sides
from telerank.types import Phrase


class ConvKnrm(nn.Module):
    """tanh(w · φ + b), between -1 and 1, with φ the kernels of K-NRM over each M^(g, h), one after the other.

    M^(g, h)_ij is the cosine of the g-gram of the query that begins at word i and the h-gram of the passage
    that begins at word j, for g, h = 1 … ``longest``. An h-gram's vector is relu(W_h t + v_h) with t the
    vectors of its h words, those behind the text's end being 0; queries and passages share the W_h, each of
    ``filters`` filters. An n-gram without a known word is similar to none.

    ``vectors`` (V, E) are rows as :class:`telerank.models.pairs.words.Words` has them; they are trained, too,
    unless ``frozen``.
    """

    def __init__(
        self, vectors: Tensor, filters: int = 128, longest: int = 3, *, frozen: bool = False
    ) -> None:
        super().__init__()
        if min(filters, longest) < 1:
            raise ModelError(f"filters and longest must be at least 1, got {filters} and {longest}")
        self.words = make_embedding(vectors, frozen=frozen)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(vectors.shape[1], filters, length) for length in range(1, longest + 1)
        )
        self.weight = nn.Linear(longest**2 * len(MEANS), 1)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """The lengths of n-grams of query and passage, in the order of the kernels."""
        longest = len(self.convolutions)
        sizes = range(1, longest + 1)
        return list(product(sizes, sizes))

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> tanh(w · φ + b), (B,)."""
        return self.with_kernels(batch)[0]

    @in_float32
    def with_kernels(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Scores, (B,), and φ, (B, longest² · 11), in the order of :attr:`lengths` and :data:`MEANS`."""
        texts = split_sides(batch)
        queries = self._grams(texts.query, texts.query_mask)
        passages = self._grams(texts.passage, texts.passage_mask)
        kernels = torch.cat(
            [
                pool_kernels(query @ passage.transpose(1, 2), query_known, passage_known)
                for (query, query_known), (passage, passage_known) in product(queries, passages)
            ],
            dim=1,
        )
        return torch.tanh(self.weight(kernels)).squeeze(-1), kernels

    def _grams(self, rows: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Of each length, unit vectors of the n-grams (B, L, F), and which have a known word (B, L)."""
        vectors = self.words(rows).transpose(1, 2)  # (B, E, L)
        known = (mask & (rows != UNKNOWN)).to(vectors.dtype).unsqueeze(1)
        grams = []
        for behind, convolution in enumerate(self.convolutions):
            filtered = torch.relu(convolution(functional.pad(vectors, (0, behind)))).transpose(1, 2)
            has_known = functional.max_pool1d(functional.pad(known, (0, behind)), behind + 1, 1).squeeze(1)
            grams.append((functional.normalize(filtered, dim=-1), (has_known > 0) & mask))
        return grams

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:  # noqa: ARG002 — as of every kind
        """What the score is the tanh of: the share of each two lengths of n-grams, and the bias."""
        shares = (self.with_kernels(batch)[1][0] * self.weight.weight[0]).view(-1, len(MEANS)).sum(1)
        template = "n-grams of {n} words of the query and of {of} words of the document"
        values = [
            (share, Phrase(template, n=query, of=passage))
            for share, (query, passage) in zip(shares.tolist(), self.lengths, strict=True)
        ]
        bias = float(self.weight.bias[0]), "bias"
        return ModelExplanation("the score is the tanh of the sum of", (*values, bias))


KIND = WordKind(
    ConvKnrm,
    training={**TRAINING, "model": {"head": {"filters": 128, "longest": 3}}},
    explain=ConvKnrm.explain,
)
