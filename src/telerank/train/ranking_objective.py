"""The loss of groups, by name: each is a mean over groups, whose first document is the relevant one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from telerank.errors import ModelError
from telerank.train.reranker_config import Loss


@dataclass(frozen=True)
class RankingObjective:
    wanted: Loss

    def __call__(self, logits: Tensor, teacher: Tensor | None) -> Tensor:
        """Logits, and a teacher's where it is heard, both (groups, documents of a group) -> a number."""
        first, others = logits[:, :1], logits[:, 1:]
        match self.wanted.objective:
            case "pointwise":
                labels = torch.zeros_like(logits)
                labels[:, 0] = 1.0
                weights = _class_weights(labels) if self.wanted.class_weights else None
                return functional.binary_cross_entropy_with_logits(logits, labels, weights)
            case "margin":
                if self.wanted.on == "probability":
                    first, others = first.sigmoid(), others.sigmoid()
                return (self.wanted.margin - first + others).clamp(min=0).mean()
            case "ranknet":
                return functional.softplus(others - first).mean()
            case "softmax":
                return -logits.log_softmax(1)[:, 0].mean()
            case _:
                if teacher is None:
                    raise ModelError("margin-mse: no teacher has scored these pairs")
                seen = teacher[:, :1] - teacher[:, 1:]
                return functional.mse_loss(first - others, seen)


def _class_weights(labels: Tensor) -> Tensor:
    """Of each pair, samples / (classes x samples of its class): Piaf's equation 17."""
    positive = labels.mean()
    return labels / (2 * positive) + (1 - labels) / (2 * (1 - positive))
