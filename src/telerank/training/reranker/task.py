"""A re-ranker that learns from batches of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.evaluation.measures import measure
from telerank.models.losses.ranking import (
    class_weights,
    cross_entropy,
    listwise_softmax,
    margin_mse,
    max_margin,
    ranknet,
)
from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.training.reranker.candidates import CandidateSet
from telerank.training.reranker.config import RerankerLoss, RerankerTraining
from telerank.training.reranker.groups import Groups
from telerank.training.reranker.pair_logits import EndToEnd
from telerank.training.reranker.stored_logits import FromStore
from telerank.training.task import TrainingDevice
from telerank.types import Progress

_UNITS = {"probability": "prob", "logit": "logit"}
PairScorer: TypeAlias = EndToEnd | FromStore


@dataclass(frozen=True, eq=False)
class RerankerTask:
    """Processes take a share of each batch's groups; losses are means over groups."""

    config: RerankerTraining
    reranker: Reranker
    groups: Groups
    scorer: PairScorer
    dev_set: CandidateSet | None
    hardware: TrainingDevice

    @property
    def modules(self) -> Sequence[nn.Module]:
        return (self.reranker.model,)

    @property
    def examples(self) -> int:
        return len(self.groups)

    def prepare(self, number: int, progress: Progress) -> None:
        size = self.config.optimisation.batch
        self.scorer.prepare(range(number * size, (number + 1) * size), progress)

    def backward(self, number: int) -> float:
        size = self.config.optimisation.batch
        share = [self.groups[number * size + offset] for offset in self.hardware.processes.share(size)]
        total = 0.0
        for groups, logits in self.scorer.group_logits(share):
            scores = [group.teacher for group in groups]
            teacher = torch.tensor(scores, device=logits.device) if all(scores) else None
            loss = ranking_loss(self.config.loss, logits, teacher) * (len(groups) / size)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def dev(self, progress: Progress) -> float | None:
        settings, dev = self.config.dev, self.dev_set
        if settings is None or dev is None:
            return None
        rankings = dev.rerank(self.scorer.score(dev.pairs, progress))
        (value,) = measure(rankings, dev.qrels, settings.measure).mean.values()
        return value

    def save(self, folder: Path) -> None:
        save_reranker(self.reranker, folder)

    def state(self) -> Mapping[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def ranking_loss(settings: RerankerLoss, logits: Tensor, teacher: Tensor | None = None) -> Tensor:
    """The loss of groups, a mean over groups, whose first document is the relevant one.

    Takes logits, and a teacher's if the loss needs them, both (groups, documents of a group).
    """
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    match settings.objective:
        case "pointwise":  # all groups have as many of each class, so a group's counts are the whole's
            weights = class_weights(logits.shape[1] - 1, 1) if settings.class_weights else None
            return cross_entropy(logits, labels, weights)
        case "margin":
            return max_margin(logits, labels, settings.margin, of=_UNITS[settings.of])
        case "ranknet":
            return ranknet(logits, labels)
        case "softmax":
            return listwise_softmax(logits, labels)
        case "margin-mse":
            if teacher is None:
                raise ModelError("margin-mse: no teacher has scored these pairs")
            return margin_mse(logits, labels, teacher)
