"""Tasks that learn from segments, made of the same documents, model and dev set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from telerank.models.rerankers.reranker import Reranker
from telerank.training.examples.groups import Groups
from telerank.training.reranker.config import RerankerTraining
from telerank.training.reranker.dev_groups import RerankerDevSet
from telerank.training.reranker.pair_logits import MakePairs
from telerank.training.reranker.scoring import PairScorer
from telerank.training.reranker.stored_logits import FromStore, Stored
from telerank.training.reranker.task import RerankerTask
from telerank.training.segments.groups import EverySegment, SelectedSegments
from telerank.training.segments.joint import JointTask
from telerank.training.segments.learning import SegmentLearning
from telerank.training.segments.selection import Choose
from telerank.training.segments.table import DocumentScores, SegmentTable
from telerank.training.task import TrainingDevice

MakeScorer = Callable[[Reranker, Groups, TrainingDevice, MakePairs], PairScorer]


@dataclass(frozen=True, eq=False)
class SegmentTasks:
    """``groups`` are of documents, ``table`` has the segments that are learned from."""

    config: RerankerTraining
    learning: SegmentLearning
    groups: Groups
    reranker: Reranker
    dev: RerankerDevSet | None
    hardware: TrainingDevice
    table: SegmentTable
    make_scorer: MakeScorer

    @property
    def apart(self) -> bool:
        """Whether the loss takes each document alone, so that segments need no partner."""
        return self.config.loss.objective == "pointwise" and not self.config.loss.class_weights

    def select(self) -> RerankerTask:
        """Learn from the segments that the settings select."""
        return self._task(self.learning.select(self.groups, self.table, apart=self.apart))

    def of(self, choose: Choose) -> RerankerTask:
        """Learn from these segments."""
        return self._task(SelectedSegments(self.groups, self.table, choose))

    def joint(self, selector: Reranker) -> JointTask:
        """Learn beside ``selector`` from the segments that it selects; features of all of them are stored."""
        every = EverySegment(self.groups, self.table)
        ranker = self._task(self.groups, prepared=every)
        scorer = self.score_with(selector)
        if isinstance(scorer, FromStore) and isinstance(ranker.scorer, FromStore):
            shared = ranker.scorer.stored
            stored = Stored(scorer.stored.encoder, shared.store, shared.hardware, shared.tokens)
            scorer = FromStore(stored, every, scorer.last)
        return JointTask(ranker, selector, scorer, self.table, self.apart)

    def score_with(self, reranker: Reranker) -> PairScorer:
        """The scorer of segments with another model."""
        reranker.model.to(self.hardware.device)
        every = EverySegment(self.groups, self.table)
        return self.make_scorer(reranker, every, self.hardware, self.learning.tokens)

    def dev_scores(self, reranker: Reranker) -> DocumentScores | None:
        """How the dev documents are scored by their segments; None without dev."""
        return None if self.dev is None else self.learning.scores(reranker, self.dev.candidates.documents)

    def _task(self, groups: Groups, prepared: Groups | None = None) -> RerankerTask:
        scorer = self.make_scorer(self.reranker, prepared or groups, self.hardware, self.learning.tokens)
        scores = self.dev_scores(self.reranker)
        return RerankerTask(self.config, self.reranker, groups, scorer, self.dev, self.hardware, scores)
