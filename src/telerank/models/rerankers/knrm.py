"""K-NRM: kernel pooling over the similarities of words (Xiong et al. 2017), a baseline of BERT-DMN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from telerank.models.pairs.pair import PairBatch
from telerank.models.pairs.words import UNKNOWN, Words
from telerank.models.precision import in_float32
from telerank.models.rerankers.kinds import ModelExplanation
from telerank.models.rerankers.word_ranker import WordKind, make_embedding, split_sides
from telerank.types import Phrase

MEANS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, -0.1, -0.3, -0.5, -0.7, -0.9)
DEVIATIONS = (1e-3, *(0.1,) * 10)
"""μ and σ of the eleven kernels; the first is that of exact matches."""
_LEAST = 1e-10  # the least sum of a kernel, for the logarithm
_SCALE = 0.01  # of the logarithms, as in the authors' program: unscaled they saturate the tanh


def pool_kernels(cosines: Tensor, query_known: Tensor, passage_known: Tensor) -> Tensor:
    """φ, (B, 11), of cosines (B, N, T) and what is known in queries (B, N) and passages (B, T)."""
    sums = []
    for mean, deviation in zip(MEANS, DEVIATIONS, strict=True):
        near = torch.exp(-((cosines - mean) ** 2) / (2 * deviation**2))  # (B, N, T)
        kernel = (near @ passage_known.to(near.dtype).unsqueeze(-1)).squeeze(-1)  # (B, N): K_k(M_i)
        sums.append((kernel.clamp(min=_LEAST).log() * query_known).sum(1))
    return _SCALE * torch.stack(sums, dim=1)


class Knrm(nn.Module):
    """tanh(w · φ + b), between -1 and 1, with φ_k = 0.01 times the sum over query words i of log K_k(M_i).

    K_k(M_i) = the sum over passage words j of exp(-(M_ij - μ_k)² / 2 σ_k²), and M_ij is the cosine of their
    vectors. An unknown word is similar to no word: two unknown words need not be the same.

    ``vectors`` (V, E) are rows as :class:`telerank.models.pairs.words.Words` has them; they are trained, too,
    unless ``frozen``.
    """

    def __init__(self, vectors: Tensor, *, frozen: bool = False) -> None:
        super().__init__()
        self.words = make_embedding(vectors, frozen=frozen)
        self.weight = nn.Linear(len(MEANS), 1)

    def forward(self, batch: PairBatch) -> Tensor:
        """Pairs -> tanh(w · φ + b), (B,)."""
        return self.with_kernels(batch)[0]

    @in_float32
    def with_kernels(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Scores, (B,), and φ, (B, 11), in the order of :data:`MEANS`."""
        texts = split_sides(batch)
        query = functional.normalize(self.words(texts.query), dim=-1)  # (B, N, E)
        passage = functional.normalize(self.words(texts.passage), dim=-1)  # (B, T, E)
        cosines = query @ passage.transpose(1, 2)  # (B, N, T)
        query_known = texts.query_mask & (texts.query != UNKNOWN)
        passage_known = texts.passage_mask & (texts.passage != UNKNOWN)
        kernels = pool_kernels(cosines, query_known, passage_known)  # (B, 11)
        return torch.tanh(self.weight(kernels)).squeeze(-1), kernels

    def explain(self, words: Words, batch: PairBatch) -> ModelExplanation:  # noqa: ARG002 — as of every kind
        """What the score is the tanh of: each kernel's share, and the bias, in a batch of one pair."""
        sums, weights = self.with_kernels(batch)[1][0].tolist(), self.weight.weight[0].tolist()
        template = "{weight:.4g} times {value:.4g}, the kernel at {least} (width {most})"
        shares = (
            (weight * value, Phrase(template, weight=weight, value=value, least=mean, most=width))
            for weight, value, mean, width in zip(weights, sums, MEANS, DEVIATIONS, strict=True)
        )
        bias = float(self.weight.bias[0]), "bias"
        return ModelExplanation("the score is the tanh of the sum of", (*shares, bias))


TRAINING: Mapping[str, Any] = {
    "loss": {"objective": "margin", "of": "logit"},
    "optimisation": {
        "epochs": 10.0,
        "batch": 16,
        "optimiser": "adam",
        "learning_rate": 0.001,
        "eps": 1e-5,
        "weight_decay": 0.0,
        "warm_up": 0,
        "schedule": "constant",
    },
}
KIND = WordKind(Knrm, training=TRAINING, explain=Knrm.explain)
