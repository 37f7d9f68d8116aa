"""The loss of groups, by name: each is a mean over groups, whose first document is the relevant one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from telerank.errors import ModelError
from telerank.models.losses.ranking import (
    class_weights,
    cross_entropy,
    listwise_softmax,
    margin_mse,
    max_margin,
    ranknet,
)
from telerank.training.reranker.config import RerankerLoss

_OF = {"probability": "prob", "logit": "logit"}


@dataclass(frozen=True)
class RankingObjective:
    wanted: RerankerLoss

    def __call__(self, logits: Tensor, teacher: Tensor | None) -> Tensor:
        """Logits, and a teacher's where it is heard, both (groups, documents of a group) -> a number."""
        labels = torch.zeros_like(logits)
        labels[:, 0] = 1
        match self.wanted.objective:
            case "pointwise":  # all groups have as many of each class, so a group's counts are the whole's
                weights = class_weights(logits.shape[1] - 1, 1) if self.wanted.class_weights else None
                return cross_entropy(logits, labels, weights)
            case "margin":
                return max_margin(logits, labels, self.wanted.margin, of=_OF[self.wanted.of])
            case "ranknet":
                return ranknet(logits, labels)
            case "softmax":
                return listwise_softmax(logits, labels)
            case "margin-mse":
                if teacher is None:
                    raise ModelError("margin-mse: no teacher has scored these pairs")
                return margin_mse(logits, labels, teacher)
