"""Trainings of re-rankers that learn from segments of documents, selected beforehand or by another model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from torch import Tensor, nn

from telerank.errors import CollectionError, ModelError
from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.segments.split import Segmenter
from telerank.training.examples.groups import Group, Groups
from telerank.training.examples.read_groups import TEXTS, read_groups
from telerank.training.examples.reading import Reading
from telerank.training.reranker.candidates import RerankerDevSet
from telerank.training.reranker.pair_logits import PairScorer, PairScores
from telerank.training.reranker.stored_logits import FromStore
from telerank.training.reranker.task import RerankerTask, group_loss
from telerank.training.reranker.train import RerankerJob
from telerank.training.segment_settings import SegmentTraining
from telerank.training.segments.groups import (
    AllSegments,
    EverySegment,
    SelectedSegments,
    parts_of,
    qrel_groups,
)
from telerank.training.segments.selection import Choose, Drawn, Gold, Truth, choose_first, read_truth
from telerank.training.segments.table import DocumentScores, SegmentTable, SegmentTokens, read_docs
from telerank.training.task import TrainingDevice
from telerank.types import Progress

SELECTOR = "selector"
"""The folder of theta(0) in that of theta(1)."""


@dataclass(frozen=True, eq=False)
class SegmentJob(RerankerJob):
    """A training that learns from segments, and ranks documents by their segments."""

    @property
    def segments(self) -> SegmentTraining:
        """The settings of segments."""
        if self.config.data.segments is None:
            raise ModelError("this training has no data.segments")
        return self.config.data.segments

    def make_task(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> RerankerTask:
        return self.open_tasks(begun, hardware, progress).select()

    def open_tasks(self, begun: Path | None, hardware: TrainingDevice, progress: Progress) -> SegmentTasks:
        """What tasks are made of; with known passages if they are learned from.

        Raises CollectionError if there are none, or none is found in its document.
        """
        reading, truth = self.reading(progress), Truth({}, 0, 0)
        if self.segments.select == "gold":
            collection, split = reading.collection, reading.data.split
            truth = read_truth(self.segments, collection, split, progress=progress)
            if not truth.spans:
                lacks = f"{collection.name}: split {split!r} has no known passage that is in its document"
                raise CollectionError(f"{lacks}: select gold needs them")
            reading.counts.update(truth.describe())
            reading = replace(reading, keeps=truth.spans.keys())
        groups = read_groups(reading, self.shared / TEXTS)
        dev = self.dev_set(reading, hardware)
        reranker = self.model_of(begun)
        table = self._cut(groups, reading, reranker, truth)
        return SegmentTasks(self, reading, truth, groups, table, reranker, dev, hardware)

    def _cut(self, groups: Groups, reading: Reading, reranker: Reranker, truth: Truth) -> SegmentTable:
        """The segments of all documents of the groups, in the re-ranker's tokens.

        All of them, where known passages are learned from; otherwise the leading ones.
        """
        is_gold, first = self.segments.select == "gold", self.segments.leading
        docs = read_docs(reading.collection.docs(), qrel_groups(groups).documents.keys(), reading.progress)
        settings = self.segments.learned(reading.seed, whole=is_gold)
        table = SegmentTable.cut(Segmenter.of(reranker, settings), docs, SegmentTokens())
        if is_gold and first:
            kept = {docno for _, docno in truth.spans}
            cut = {docno: own if docno in kept else own.first(first) for docno, own in table.segments.items()}
            table = replace(table, segments=cut)
        reading.counts.update(table.counts())
        return table

    def test_scores(
        self, reranker: Reranker, documents: Mapping[str, str], hardware: TrainingDevice
    ) -> PairScores:
        tokens = SegmentTokens()
        return self.by_segments(self.test_scorer(reranker, hardware, tokens), reranker, documents, tokens)

    def by_segments(
        self, scorer: PairScores, reranker: Reranker, documents: Mapping[str, str], tokens: SegmentTokens
    ) -> DocumentScores:
        """Scores documents by all of their segments; ``documents[docno]`` are their texts in pairs."""
        docs = read_docs(self.collection.docs(), documents.keys())
        segmenter = Segmenter.of(reranker, self.segments.ranked)
        by_text = {documents[doc.docno]: doc for doc in docs}
        return DocumentScores(scorer, segmenter, self.segments.score, by_text, tokens)


@dataclass(frozen=True, eq=False)
class SegmentTasks:
    """Tasks of the same documents, model and dev set.

    ``groups`` are of documents, ``table`` has the segments that are learned from.
    """

    job: SegmentJob
    reading: Reading
    truth: Truth
    groups: Groups
    table: SegmentTable
    reranker: Reranker
    dev: RerankerDevSet | None
    hardware: TrainingDevice

    @property
    def apart(self) -> bool:
        """Whether the loss takes each document alone, so that segments need no partner."""
        loss = self.job.config.loss
        return loss.objective == "pointwise" and not loss.class_weights

    def select(self) -> RerankerTask:
        """Learn from the segments that the settings select."""
        seed, settings = self.reading.seed, self.job.segments
        drawn = Drawn(self.table, seed)
        match settings.select:
            case "all":
                return self._task(AllSegments(self.groups, self.table, settings.others, seed, self.apart))
            case "gold":
                return self.of(Gold(self.truth, drawn))
            case "random":
                return self.of(drawn)
            case _:
                return self.of(choose_first)

    def of(self, choose: Choose) -> RerankerTask:
        """Learn from these segments."""
        return self._task(SelectedSegments(self.groups, self.table, choose))

    def joint(self, selector: Reranker) -> JointTask:
        """Learn beside ``selector`` from the segments that it selects; features of all of them are stored."""
        task = self._task(self.groups, prepared=EverySegment(self.groups, self.table))
        scorer = self.score_with(selector)
        if isinstance(scorer, FromStore) and isinstance(task.scorer, FromStore):
            scorer.store = task.scorer.store
        parts = {each.name: getattr(task, each.name) for each in fields(task) if each.init}
        return JointTask(**parts, selector=selector, selecting=scorer, table=self.table, apart=self.apart)

    def score_with(self, reranker: Reranker) -> PairScorer:
        """The scorer of segments with another model."""
        reranker.model.to(self.hardware.device)
        every = EverySegment(self.groups, self.table)
        return self.job.make_scorer(reranker, every, self.hardware, self.table.tokens)

    def dev_scores(self, reranker: Reranker, scorer: PairScores) -> DocumentScores | None:
        """How the dev documents are scored by their segments; None without dev."""
        if self.dev is None:
            return None
        return self.job.by_segments(scorer, reranker, self.dev.candidates.documents, self.table.tokens)

    def _task(self, groups: Groups, prepared: Groups | None = None) -> RerankerTask:
        reranker, hardware = self.reranker, self.hardware
        scorer = self.job.make_scorer(reranker, prepared or groups, hardware, self.table.tokens)
        scores = self.dev_scores(reranker, scorer) or scorer
        task = RerankerTask(self.job.config, reranker, groups, scorer, scores, self.dev, hardware)
        self.job.write_counts(task, self.reading)
        return task


@dataclass(frozen=True, eq=False)
class JointTask(RerankerTask):
    """The first iteration of BeST: theta(0), the ``selector``, learns from all segments; theta(1), the
    ``reranker``, from those with its highest scores (equations 2 and 3).

    The scores are those of the same update, before the weights change: the arg-max is under the current
    theta(0), with its dropout. Both losses are means over groups of documents, that of theta(0) a sum over
    the segments' numbers. The loss that is logged, dev and the model are those of theta(1).
    """

    selector: Reranker
    selecting: PairScorer
    table: SegmentTable
    apart: bool

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        return ((self.selector.model,), (self.reranker.model,))

    def read(self, number: int) -> tuple[list[Group], int]:
        return self.batch(number)  # which segments theta(1) reads, theta(0) decides

    def backward(self, batch: tuple[list[Group], int]) -> Tensor:
        groups, new = batch
        return super().backward(self.scorer.read(self.learn_from_all(groups), new))

    def learn_from_all(self, groups: Sequence[Group]) -> list[Group]:
        """Add the gradients of theta(0) from all segments; return groups of those that it scores best."""
        parts = [
            (row, part)
            for row, group in enumerate(groups)
            for part in parts_of(group, self.table, apart=self.apart)
        ]
        origins = {id(part.group): (row, part) for row, part in parts}
        best: dict[tuple[int, int], tuple[float, int]] = {}
        size = self.config.optimisation.batch
        read = self.selecting.read([part.group for _, part in parts], 0)
        for learned, logits, _ in self.selecting.group_logits(read):
            documents = len(groups[0].docnos) if self.apart else 1
            loss = group_loss(self.config.loss, learned, logits) * (len(learned) / (size * documents))
            self.hardware.backward(loss, last=False)
            for group, scores in zip(learned, logits.detach().tolist(), strict=True):
                row, part = origins[id(group)]
                for position, number, score in zip(part.positions, part.numbers, scores, strict=True):
                    if number < part.index:  # it came before: another draw of dropout is no second chance
                        continue
                    known = best.get((row, position))
                    if known is None or (score, -number) > (known[0], -known[1]):
                        best[row, position] = score, number
        chosen = []
        for row, group in enumerate(groups):
            numbers = [best[row, position][1] for position in range(len(group.docnos))]
            texts = map(self.table.text, group.docnos, numbers)
            chosen.append(replace(group, documents=tuple(texts)))
        return chosen

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_reranker(self.selector, folder / SELECTOR)
