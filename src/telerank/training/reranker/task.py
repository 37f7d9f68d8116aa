"""A re-ranker that learns from batches of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.losses import (
    class_weights,
    cross_entropy,
    listwise_softmax,
    margin_mse,
    max_margin,
    ranknet,
)
from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.reranking.texts import TextPair
from telerank.training.examples.groups import Group, Groups
from telerank.training.reranker.candidates import RerankerDevSet
from telerank.training.reranker.config import RerankerLoss, RerankerTraining
from telerank.training.reranker.pair_logits import CutCounts, PairScorer, PairScores
from telerank.training.task import TrainingDevice
from telerank.types import Progress

_UNITS = {"probability": "prob", "logit": "logit"}


@dataclass(frozen=True, eq=False)
class RerankerTask:
    """Processes take a share of each batch's groups; losses are means over groups."""

    config: RerankerTraining
    reranker: Reranker
    groups: Groups
    scorer: PairScorer
    dev_scorer: PairScores
    dev_set: RerankerDevSet | None
    hardware: TrainingDevice
    _dev_scores: list[Mapping[TextPair, float]] = field(default_factory=list, init=False)
    """The scores of the dev pairs with the present weights, if they were computed."""

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.reranker.model,),)

    @property
    def examples(self) -> int:
        return len(self.groups)

    def prepare(self, number: int, progress: Progress) -> None:
        size = self.config.optimisation.batch
        self.scorer.prepare(range(number * size, (number + 1) * size), progress)

    def read(self, number: int) -> Any:
        return self.scorer.read(*self.batch(number))

    def backward(self, batch: Any) -> Tensor:
        size = self.config.optimisation.batch
        self._dev_scores.clear()
        total = torch.zeros((), dtype=torch.float64, device=self.hardware.device)
        for groups, logits, last in self.scorer.group_logits(batch):
            loss = group_loss(self.config.loss, groups, logits) * (len(groups) / size)
            self.hardware.backward(loss, last=last)
            total += loss.detach()
        return total

    def batch(self, number: int) -> tuple[list[Group], int]:
        """The share of a batch of this process, and how many of its first groups repeat no earlier ones."""
        size = self.config.optimisation.batch
        numbers = [number * size + offset for offset in self.hardware.processes.share(size)]
        new = sum(each < self.groups.repeats_from for each in numbers)
        return [self.groups[each] for each in numbers], new

    def dev(self, progress: Progress) -> float | None:
        settings, dev = self.config.dev, self.dev_set
        if settings is None or dev is None:
            return None
        scores = self._score_dev(dev, progress)
        return self.hardware.processes.first(partial(dev.candidates.measure, scores, settings.measure))

    def dev_loss(self, progress: Progress) -> float | None:
        dev = self.dev_set
        if dev is None:
            return None
        scores = self._score_dev(dev, progress)
        return self.hardware.processes.first(partial(self._compute_dev_loss, dev.groups, scores))

    def count_learned(self) -> CutCounts:
        """The pairs of the first epoch that all processes have learned from; all of them must call this."""
        own = self.hardware.processes.gather_values(astuple(self.scorer.learned))
        return CutCounts(*map(sum, zip(*own, strict=True)))

    def save(self, folder: Path) -> None:
        save_reranker(self.reranker, folder)

    def state(self) -> Mapping[str, Tensor]:
        return {"learned": torch.tensor(astuple(self.count_learned()))}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        if self.hardware.processes.leads:
            names = (each.name for each in fields(CutCounts))
            for name, count in zip(names, state["learned"].tolist(), strict=True):
                setattr(self.scorer.learned, name, count)

    def _score_dev(self, dev: RerankerDevSet, progress: Progress) -> Mapping[TextPair, float]:
        """The scores of all dev pairs, computed once for the measure and the loss."""
        if not self._dev_scores:
            scores = self.dev_scorer.share(dev.pairs, self.hardware.processes, progress)
            self._dev_scores.append(dict(zip(dev.pairs, scores, strict=True)))
        return self._dev_scores[0]

    def _compute_dev_loss(self, groups: Sequence[Group], scores: Mapping[TextPair, float]) -> float | None:
        if not groups:
            return None
        logits = torch.tensor([[scores[pair] for pair in group.pairs] for group in groups])
        return float(group_loss(self.config.loss, groups, logits))


def group_loss(settings: RerankerLoss, groups: Sequence[Group], logits: Tensor) -> Tensor:
    """The loss of groups, a mean over them, of the ``logits`` of their documents, (groups, documents)."""
    scores = [group.teacher for group in groups]
    teacher = torch.tensor(scores) if all(scores) else None
    first = torch.tensor([float(group.relevant) for group in groups])
    return ranking_loss(settings, logits, teacher, first)


def ranking_loss(
    settings: RerankerLoss, logits: Tensor, teacher: Tensor | None = None, first: Tensor | float = 1.0
) -> Tensor:
    """The loss of groups, a mean over groups, whose first document is the relevant one.

    Takes logits, and a teacher's if the loss needs them, both (groups, documents of a group). ``first`` has
    the labels of first documents that stand alone, (groups,); it is on the processor, as a teacher may be.
    """
    labels = torch.zeros(logits.shape, dtype=logits.dtype)
    labels[:, 0] = first
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
