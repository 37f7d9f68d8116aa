"""A re-ranker that learns from batches of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
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
from telerank.reranking.texts import TextPair
from telerank.training.examples.groups import Group, Groups
from telerank.training.reranker.config import RerankerLoss, RerankerTraining
from telerank.training.reranker.dev_groups import RerankerDevSet
from telerank.training.reranker.pair_logits import CutCounts, EndToEnd
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
    dev_set: RerankerDevSet | None
    hardware: TrainingDevice
    _dev_scores: dict[TextPair, float] = field(default_factory=dict, init=False)
    """The scores of the dev pairs with the present weights."""

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
        numbers = [number * size + offset for offset in self.hardware.processes.share(size)]
        share = [self.groups[each] for each in numbers]
        new = sum(each < self.groups.repeats_from for each in numbers)
        self._dev_scores.clear()
        total = 0.0
        for groups, logits in self.scorer.group_logits(share, new):
            loss = group_loss(self.config.loss, groups, logits) * (len(groups) / size)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def dev(self, progress: Progress) -> float | None:
        settings, dev = self.config.dev, self.dev_set
        if settings is None or dev is None:
            return None
        scores, candidates = self._score_dev(dev, progress), dev.candidates
        rankings = candidates.rerank(scores[pair] for pair in candidates.pairs)
        (value,) = measure(rankings, candidates.qrels, settings.measure).mean.values()
        return value

    def dev_loss(self, progress: Progress) -> float | None:
        dev = self.dev_set
        if dev is None or not dev.groups:
            return None
        scores = self._score_dev(dev, progress)
        logits = torch.tensor([[scores[pair] for pair in group.pairs] for group in dev.groups])
        return float(group_loss(self.config.loss, dev.groups, logits))

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
            self._dev_scores.update(zip(dev.pairs, self.scorer.score(dev.pairs, progress), strict=True))
        return self._dev_scores


def group_loss(settings: RerankerLoss, groups: Sequence[Group], logits: Tensor) -> Tensor:
    """The loss of groups, a mean over them, of the ``logits`` of their documents, (groups, documents)."""
    scores = [group.teacher for group in groups]
    teacher = torch.tensor(scores, device=logits.device) if all(scores) else None
    first = torch.tensor([float(group.relevant) for group in groups], device=logits.device)
    return ranking_loss(settings, logits, teacher, first)


def ranking_loss(
    settings: RerankerLoss, logits: Tensor, teacher: Tensor | None = None, first: Tensor | float = 1.0
) -> Tensor:
    """The loss of groups, a mean over groups, whose first document is the relevant one.

    Takes logits, and a teacher's if the loss needs them, both (groups, documents of a group). ``first`` has
    the labels of first documents that stand alone, (groups,).
    """
    labels = torch.zeros_like(logits)
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
