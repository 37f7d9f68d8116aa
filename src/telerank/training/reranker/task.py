"""A re-ranker that learns from batches of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.reranking.texts import TextPair
from telerank.training.reranker.candidates import CandidateSet
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.groups import Group, Groups
from telerank.training.reranker.objective import RankingObjective
from telerank.training.task import TrainingDevice
from telerank.types import Progress


class Passes(Protocol):
    """How pairs of texts become logits: :class:`.EndToEnd` or :class:`.FromStore`."""

    def prepare(self, wanted: range, progress: Progress) -> None:
        """Be ready for the groups of these numbers."""

    def parts(self, groups: Sequence[Group]) -> Iterator[tuple[Sequence[Group], Tensor]]:
        """Some of the groups with their logits, (groups, documents of a group), until all have come."""

    def scores(self, pairs: Sequence[TextPair], progress: Progress) -> list[float]:
        """The logits of pairs, without dropout."""


@dataclass(frozen=True, eq=False)
class RerankerTask:
    """Several processes take a share of each batch's groups; losses are means over groups."""

    config: RerankerTraining
    reranker: Reranker
    groups: Groups
    passes: Passes
    dev_set: CandidateSet | None
    place: TrainingDevice

    @property
    def modules(self) -> Sequence[nn.Module]:
        return (self.reranker.model,)

    @property
    def examples(self) -> int:
        return len(self.groups)

    def prepare(self, number: int, progress: Progress) -> None:
        size = self.config.optimisation.batch
        self.passes.prepare(range(number * size, (number + 1) * size), progress)

    def backward(self, number: int) -> float:
        size, objective = self.config.optimisation.batch, RankingObjective(self.config.loss)
        own = [self.groups[number * size + place] for place in self.place.processes.share(size)]
        total = 0.0
        for groups, logits in self.passes.parts(own):
            told = [group.teacher for group in groups]
            teacher = torch.tensor(told, device=logits.device) if all(told) else None
            loss = objective(logits, teacher) * (len(groups) / size)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total

    def dev(self, progress: Progress) -> float | None:
        wanted, dev = self.config.dev, self.dev_set
        if wanted is None or dev is None:
            return None
        rankings = dev.ranked(self.passes.scores(dev.pairs, progress))
        (value,) = dev.measured(rankings, wanted.measure).mean.values()
        return value

    def save(self, folder: Path) -> None:
        save_reranker(self.reranker, folder)

    def state(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass
