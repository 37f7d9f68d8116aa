"""A re-ranker that learns from batches of groups, and the queries of dev and test with their candidates."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.derived.questions import shuffle
from telerank.errors import CollectionError, ModelError
from telerank.evaluation.measures import measure
from telerank.models import losses
from telerank.models.rerankers.reranker import Reranker, save_reranker
from telerank.reranking.texts import TextPair
from telerank.training.examples.groups import Group, Groups, ListedNegatives, QrelGroups, Scores
from telerank.training.examples.reading import (
    Reading,
    candidate_lists,
    check_complete,
    choose_queries,
    read_texts,
)
from telerank.training.reranker.config import CandidateSettings, RerankerDev, RerankerLoss, RerankerTraining
from telerank.training.reranker.scoring import CutCounts, PairScorer, PairScores
from telerank.training.settings import NegativeSettings
from telerank.training.task import Task, TrainingDevice, freeze_embeddings
from telerank.types import Progress, Qrels, Query, Ranking, silent

_UNITS = {"probability": "prob", "logit": "logit"}
FIXED_SEED = 0
"""Queries of dev and test, the groups of the dev loss, and folds are the same in every training."""


@dataclass(frozen=True)
class QueryParts:
    """The queries of dev and of test; ``kept_back`` are those that belong to the training split."""

    dev: frozenset[str] = frozenset()
    test: frozenset[str] = frozenset()
    kept_back: frozenset[str] = frozenset()


def assign_queries(collection: Collection, config: RerankerTraining) -> QueryParts:
    """Choose the queries of dev and test; if both are of one split, those of the test are chosen first.

    Raises CollectionError if dev or test is left without a judged query.
    """
    training_split, dev, test = config.data.split, config.dev, config.test
    test_qids: frozenset[str] = frozenset()
    if test is not None:
        if config.folds is not None and config.held_out is not None:
            seed = FIXED_SEED + (config.repetition or 0)
            folds = make_folds(choose_judged(collection, test), config.folds, seed)
            test_qids = frozenset(folds[config.held_out])
        else:
            unlisted: set[str] = set()
            if test.listed:  # only queries with candidates are measured
                lists = candidate_lists(collection, test.split, test)
                unlisted = {*collection.judged(test.split)} - {own.query.qid for own in lists if len(own)}
            test_qids = frozenset(choose_judged(collection, test, unlisted))
    dev_qids: frozenset[str] = frozenset()
    if dev is not None:
        excluded = test_qids if test is not None and test.split == dev.split else frozenset[str]()
        dev_qids = frozenset(choose_judged(collection, dev, excluded))
    parts = ((dev, dev_qids), (test, test_qids))
    learned = set(split_parts(training_split))
    kept_back = (qids for part, qids in parts if part is not None and learned & set(split_parts(part.split)))
    return QueryParts(dev_qids, test_qids, frozenset().union(*kept_back))


def choose_judged(
    collection: Collection, settings: CandidateSettings, excluded: Container[str] = ()
) -> list[str]:
    """The queries of a split that have judgments, or as many of them as the settings allow.

    Raises CollectionError if there is none.
    """
    judged = collection.judged(settings.split)
    qids = choose_queries([qid for qid in judged if qid not in excluded], settings.queries, FIXED_SEED)
    if not qids:
        raise CollectionError(f"{collection.name}: split {settings.split!r} has no judged query left")
    return qids


def make_folds(qids: Container[str], count: int, seed: int) -> list[list[str]]:
    """The queries in ``count`` folds whose sizes differ by at most one; their input order does not matter.

    Raises CollectionError if there are fewer queries than folds.
    """
    if len(qids) < count:
        raise CollectionError(f"{len(qids)} queries cannot be cut into {count} folds")
    order = shuffle(qids, str, seed=seed)
    return [order[first::count] for first in range(count)]


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """A first stage's rankings, the texts of their documents, and the qrels of all queries that count.

    Processes that are not the first, which shares out its pairs, have none.
    """

    rankings: Sequence[Ranking] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    qrels: Qrels = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The texts of all pairs of query and candidate, ranking by ranking."""
        return [
            (ranking.query.text, self.documents[docno])
            for ranking in self.rankings
            for docno in ranking.docnos
        ]

    def rerank(self, scores: Iterable[float]) -> list[Ranking]:
        """The rankings by new scores, one for each of :attr:`pairs`."""
        stream = iter(scores)
        return [
            Ranking.ranked(ranking.query, ranking.docnos, [next(stream) for _ in ranking.docnos])
            for ranking in self.rankings
        ]

    def measure(self, scores: Mapping[tuple[str, str], float], name: str) -> float:
        """A measure's mean over the queries, of the rankings by the scores of :attr:`pairs`."""
        rankings = self.rerank(scores[pair] for pair in self.pairs)
        (value,) = measure(rankings, self.qrels, name).mean.values()
        return value


def read_candidates(
    collection: Collection,
    settings: CandidateSettings,
    qids: Container[str],
    progress: Progress = silent,
    *,
    with_relevant: bool = False,
) -> CandidateSet:
    """The first documents of these queries' lists; ``with_relevant`` also the texts of relevant documents.

    Raises CollectionError if none of them has a list, or the collection lacks a query or document of a list.
    """
    grades = collection.judged(settings.split)
    queries = {query.qid: query.text for query in collection.split_queries(settings.split)}
    kept = frozenset(qids)
    check_complete(kept, queries, f"{collection.name}: split {settings.split!r} has no query")
    rankings = []
    for ranking in candidate_lists(collection, settings.split, settings):
        qid = ranking.query.qid
        if qid in kept and len(ranking):
            rankings.append(replace(ranking.cut(settings.depth), query=Query(qid, queries[qid])))
    if not rankings:
        raise CollectionError(
            f"{collection.name}: no judged query of split {settings.split!r} has candidates"
        )
    needed = {docno for ranking in rankings for docno in ranking.docnos}
    qrels = {qid: grades[qid] for qid in grades if qid in kept}
    judged = (grade for grade in qrels.values() if with_relevant)
    relevant = {docno for own in judged for docno, grade in own.items() if grade > 0}
    documents = read_texts(collection, needed | relevant, progress)
    check_complete(needed, documents, f"{collection.name} has no document")
    return CandidateSet(rankings, documents, qrels)


@dataclass(frozen=True, eq=False)
class RerankerDevSet:
    """``pairs`` are those that are scored: of ``groups``, and of ``candidates`` if they are measured."""

    candidates: CandidateSet = field(default_factory=CandidateSet)
    groups: Sequence[Group] = ()
    pairs: Sequence[TextPair] = ()


def read_dev_set(reading: Reading, settings: RerankerDev, qids: Container[str]) -> RerankerDevSet:
    """The candidates of the dev queries ``qids``, and the groups of the dev loss.

    A query without a relevant or without another document is left out of the dev loss, and counted in
    ``reading.counts``. Raises CollectionError if no query has candidates, or a text is missing.
    """
    candidates = read_candidates(reading.collection, settings, qids, reading.progress, with_relevant=True)
    drawn = _dev_groups(candidates, reading.data.negatives, reading.teacher(qids))
    groups = [drawn[number] for number in range(len(drawn))]
    left_out = "dev queries without a relevant or without another document, left out of the dev loss"
    reading.counts[left_out] = len(qids) - len({qid for qid, _ in drawn.pairs})
    measured = [] if settings.by_loss else candidates.pairs
    pairs = dict.fromkeys([*measured, *(pair for group in groups for pair in group.pairs)])
    return RerankerDevSet(candidates, groups, list(pairs))


def _dev_groups(
    candidates: CandidateSet, negatives: NegativeSettings | None, teacher: Scores | None
) -> QrelGroups:
    relevant: dict[str, list[str]] = {}
    lists: dict[str, npt.NDArray[np.int32]] = {}
    rows: dict[str, int] = {}
    for ranking in candidates.rankings:
        qid = ranking.query.qid
        grades, known = candidates.qrels[qid], candidates.documents
        if teacher is not None:
            known = {docno: known[docno] for docno in teacher.get(qid, {}) if docno in known}
        relevant[qid] = [docno for docno, grade in grades.items() if grade > 0 and docno in known]
        others = [docno for docno in ranking.docnos if grades.get(docno, 0) <= 0 and docno in known]
        if negatives is not None:
            others = [docno for docno in others if negatives.allows(grades.get(docno))]
        if others:
            lists[qid] = np.array([rows.setdefault(docno, len(rows)) for docno in others], np.int32)
    return QrelGroups(
        [(qid, docno) for qid in lists for docno in relevant[qid]],
        {ranking.query.qid: ranking.query.text for ranking in candidates.rankings},
        candidates.documents,
        ListedNegatives(list(rows), lists),
        negatives=negatives.per_positive if negatives else 1,
        seed=FIXED_SEED,
        teacher=teacher,
        per_group=negatives.per_group if negatives else None,
    )


@dataclass(frozen=True, eq=False)
class RerankerTask(Task):
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

    def __post_init__(self) -> None:
        if self.config.model.frozen_embeddings:
            freeze_embeddings(self.reranker.parts.transformer)

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
        return self.hardware.processes.first(partial(dev.candidates.measure, scores, settings.measures))

    def dev_loss(self, progress: Progress) -> float | None:
        dev = self.dev_set
        if dev is None:
            return None
        scores = self._score_dev(dev, progress)

        def compute() -> float | None:
            if not dev.groups:
                return None
            logits = torch.tensor([[scores[pair] for pair in group.pairs] for group in dev.groups])
            return float(group_loss(self.config.loss, dev.groups, logits))

        return self.hardware.processes.first(compute)

    def count_learned(self) -> CutCounts:
        """The pairs of the first epoch that all processes have learned from; all of them must call this."""
        own = self.scorer.learned
        shares = self.hardware.processes.gather_values((own.pairs, own.queries, own.passages, own.groups))
        return CutCounts(*map(sum, zip(*shares, strict=True)))

    def save(self, folder: Path) -> None:
        save_reranker(self.reranker, folder)

    def state(self) -> Mapping[str, Tensor]:
        counts = self.count_learned()
        return {"learned": torch.tensor((counts.pairs, counts.queries, counts.passages, counts.groups))}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        if self.hardware.processes.leads:
            own = self.scorer.learned
            own.pairs, own.queries, own.passages, own.groups = state["learned"].tolist()

    def _score_dev(self, dev: RerankerDevSet, progress: Progress) -> Mapping[TextPair, float]:
        """The scores of all dev pairs, computed once for the measure and the loss."""
        if not self._dev_scores:
            scores = self.dev_scorer.share(dev.pairs, self.hardware.processes, progress)
            self._dev_scores.append(dict(zip(dev.pairs, scores, strict=True)))
        return self._dev_scores[0]


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
            weights = losses.class_weights(logits.shape[1] - 1, 1) if settings.class_weights else None
            return losses.cross_entropy(logits, labels, weights)
        case "margin":
            return losses.max_margin(logits, labels, settings.margin, of=_UNITS[settings.of])
        case "ranknet":
            return losses.ranknet(logits, labels)
        case "softmax":
            return losses.listwise_softmax(logits, labels)
        case "margin-mse":
            if teacher is None:
                raise ModelError("margin-mse: no teacher has scored these pairs")
            return losses.margin_mse(logits, labels, teacher)
