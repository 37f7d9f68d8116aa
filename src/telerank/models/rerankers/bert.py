"""A head on the first token's output alone: no, one or several hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from telerank.models.pairs.pair import PairFeatures
from telerank.models.rerankers.kinds import BERT_DMN_PAPER
from telerank.models.rerankers.transformer_ranker import EncoderKind


class ClsMlp(nn.Module):
    """W_k … relu(W_1 cls + b_1) … + b_k: the logit of Piaf's equation 15 (its sigmoid is the probability).

    Without hidden layers it is BERT's classification layer (BERT-DMN, section 5; monoBERT). Dropout precedes
    every layer but the first, and the first one, too, if it is the only layer.
    """

    def __init__(self, width: int, hidden: Sequence[int] = (), dropout: float = 0.0) -> None:
        super().__init__()
        sizes = (width, *hidden)
        layers: list[nn.Module] = [] if hidden else [nn.Dropout(dropout)]
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, features: PairFeatures) -> Tensor:
        """Features -> logits, (B,)."""
        logits: Tensor = self.layers(features.cls).squeeze(-1)  # (B, 1) -> (B,)
        return logits


KIND = EncoderKind(
    ClsMlp,
    reads_parts=False,
    training={
        **BERT_DMN_PAPER,
        "model": {"start": "bert-base-uncased", "head": {"hidden": [], "dropout": 0.1}},
    },
)
