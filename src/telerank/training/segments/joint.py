"""The first iteration of BeST: a model that selects segments, and one that learns from them, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.training.examples.groups import Group
from telerank.training.reranker.scoring import PairScorer
from telerank.training.reranker.task import RerankerTask, group_loss
from telerank.training.segments.groups import SegmentGroup, parts_of
from telerank.training.segments.table import SegmentTable
from telerank.types import Progress

SELECTOR = "selector"
"""The folder of theta(0) in that of theta(1)."""


@dataclass(frozen=True, eq=False)
class JointTask:
    """theta(0), the ``selector``, learns from all segments; theta(1), the ``ranker``, from those with its
    highest scores (BeST, equations 2 and 3).

    The scores are those of the same update, before the weights change: the arg-max is under the current
    theta(0), with its dropout. Both losses are means over groups of documents, that of theta(0) a sum over
    the segments' numbers. The loss that is logged, dev and the model are those of theta(1).
    """

    ranker: RerankerTask
    selector: Reranker
    scorer: PairScorer
    table: SegmentTable
    apart: bool

    @property
    def modules(self) -> Sequence[nn.Module]:
        return (self.selector.model, *self.ranker.modules)

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.selector.model,), self.ranker.modules)

    @property
    def examples(self) -> int:
        return self.ranker.examples

    def prepare(self, number: int, progress: Progress) -> None:
        self.ranker.prepare(number, progress)

    def read(self, number: int) -> tuple[list[Group], int]:
        return self.ranker.batch(number)  # which segments theta(1) reads, theta(0) decides

    def backward(self, batch: tuple[list[Group], int]) -> Tensor:
        groups, new = batch
        chosen = self.learn_from_all(groups)
        return self.ranker.learn(chosen, new)

    def learn_from_all(self, groups: Sequence[Group]) -> list[Group]:
        """Add the gradients of theta(0) from all segments; return groups of those that it scores best."""
        parts = [(row, part) for row, own in enumerate(groups) for part in self._parts(own)]
        origins = {id(part.group): (row, part) for row, part in parts}
        best: dict[tuple[int, int], tuple[float, int]] = {}
        size = self.ranker.config.optimisation.batch
        read = self.scorer.read([part.group for _, part in parts], 0)
        for learned, logits in self.scorer.group_logits(read):  # type: ignore[arg-type]
            documents = len(groups[0].docnos) if self.apart else 1
            loss = group_loss(self.ranker.config.loss, learned, logits) * (len(learned) / (size * documents))
            self.ranker.hardware.backward(loss, last=False)
            for group, scores in zip(learned, logits.detach().tolist(), strict=True):
                row, part = origins[id(group)]
                for position, number, score in zip(part.positions, part.numbers, scores, strict=True):
                    if number < part.index:  # it came before: another draw of dropout is no second chance
                        continue
                    own = best.get((row, position))
                    if own is None or (score, -number) > (own[0], -own[1]):
                        best[row, position] = score, number
        return [self._chosen(group, row, best) for row, group in enumerate(groups)]

    def _parts(self, group: Group) -> list[SegmentGroup]:
        return parts_of(group, self.table, apart=self.apart)

    def _chosen(self, group: Group, row: int, best: Mapping[tuple[int, int], tuple[float, int]]) -> Group:
        numbers = (best[row, position][1] for position in range(len(group.docnos)))
        texts = (self.table.text(docno, n) for docno, n in zip(group.docnos, numbers, strict=True))
        return replace(group, documents=tuple(texts))

    def dev(self, progress: Progress) -> float | None:
        return self.ranker.dev(progress)

    def dev_loss(self, progress: Progress) -> float | None:
        return self.ranker.dev_loss(progress)

    def save(self, folder: Path) -> None:
        self.ranker.save(folder)
        save_reranker(self.selector, folder / SELECTOR)

    def state(self) -> Mapping[str, Tensor]:
        return self.ranker.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.ranker.restore(state)
