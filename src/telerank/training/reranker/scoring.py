"""Compute the logits of pairs of texts: of a whole model, or of a head on a frozen encoder's stored features.

======  ==============================================================================================
``B``   pairs
``N``   documents of a group
======  ==============================================================================================
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.batches import batch_by_length
from telerank.errors import IndexFault
from telerank.models.inference import Batching, Room, batch_width, pin
from telerank.models.pairs.pair import Pair, PairBatch, PairFeatures, PairTexts, batch_of
from telerank.models.precision import Precision
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, make_pairs, tokenize_pairs
from telerank.text.sentences import RULES
from telerank.training.examples.groups import Group, Groups
from telerank.training.features.store import FeatureStore, FrozenEncoder, gigabytes
from telerank.training.parallel import Processes, share_by_length
from telerank.training.task import TrainingDevice, evaluating, pin_all
from telerank.types import Doc, Progress, silent

MakePairs: TypeAlias = Callable[[Reranker, Sequence[TextPair]], list[Pair]]
_CHUNK, _FEATURES = 4096, 256  # pairs whose tokens, or whose stored features, are in memory
_CACHED = 2048  # tokens; larger batches do not fit a processor's cache
_SHORTEST = 2 / 3  # of the longest pair of a processor's batch: at most a third of it is padding
_SAMPLE = 1024  # pairs whose tokens are counted for an estimate


@dataclass
class CutCounts:
    """Number of pairs, and of those whose query, passage or, if it is cut by itself, title is cut.

    The groups of a training up to number ``groups`` are counted.
    """

    pairs: int = 0
    queries: int = 0
    passages: int = 0
    groups: int = 0
    titles: int | None = None

    @classmethod
    def of(cls, texts: PairTexts, pairs: Sequence[TextPair], progress: Progress) -> CutCounts:
        """The counts of pairs; each distinct text is tokenised once."""
        counts = cls()
        counts.add(tokenize_pairs(texts, pairs, None, progress).find_cut())
        return counts

    def add(self, cut: npt.NDArray[np.bool_]) -> None:
        """Count pairs; ``cut`` says whether the query and the passage of each are cut, (pairs, 2)."""
        self.pairs += len(cut)
        self.queries += int(cut[:, 0].sum())
        self.passages += int(cut[:, 1].sum())

    def describe(self, pairs: str) -> dict[str, int]:
        """The counts by description; ``pairs`` is what they are of."""
        cut = {"query": self.queries, "document": self.passages, "title": self.titles}
        whose = {f"{pairs} whose {text} was cut": count for text, count in cut.items() if count is not None}
        return {pairs: self.pairs, **whose}


class PairScores(ABC):
    """Scores pairs of a query and a document, without dropout."""

    @abstractmethod
    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The scores of any number of pairs."""

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        """The scores of the first process's pairs, each process computing a share; others get none."""
        return share_scores(processes, pairs, lambda own, _: self.score(own, progress))

    @abstractmethod
    def count_cut(self, pairs: Sequence[TextPair], progress: Progress = silent) -> CutCounts:
        """What is cut of pairs."""


class GroupLogits(NamedTuple):
    """Some groups with their logits, (B, N); ``last`` if no others follow."""

    groups: Sequence[Group]
    logits: Tensor
    last: bool


class PairScorer(PairScores):
    """Computes the logits of pairs to learn from, too, and counts these in ``learned``."""

    learned: CutCounts

    def prepare(self, numbers: range, progress: Progress) -> None:
        """Prepare the groups with these numbers, before any of them is read."""

    @abstractmethod
    def read(self, groups: Sequence[Group], new: int) -> Any:
        """The tensors of groups. The first ``new`` are counted: the others repeat earlier ones."""

    @abstractmethod
    def group_logits(self, batch: Any) -> Iterator[GroupLogits]:
        """The logits of what was :meth:`read`, in parts: a graph can be freed before the next is built."""


def share_scores(
    processes: Processes,
    pairs: Sequence[TextPair],
    score: Callable[[Sequence[TextPair], Mapping[str, Doc]], list[float]],
    docs: Mapping[str, Doc] = MappingProxyType({}),
) -> list[float]:
    """The score of each pair of the first process, which alone gets them; each process computes a share.

    ``docs`` are documents by their texts, of which each share gets its own.
    """
    if processes.size == 1:
        return score(pairs, docs)

    def score_share(items: Sequence[tuple[TextPair, Doc | None]]) -> list[float]:
        own = {pair[1]: doc for pair, doc in items if doc is not None}
        return score([pair for pair, _ in items], own)

    different = list(dict.fromkeys(pairs))  # equal pairs have equal scores
    items = [(pair, docs.get(pair[1])) for pair in different]
    scores = share_by_length(processes, score_share, items, lambda item: sum(map(len, item[0])))
    known = dict(zip(different, scores, strict=True))
    return [known[pair] for pair in pairs]


def batch_pairs_of(device: torch.device, longest: int, tokens: int) -> Batching:
    """How pairs go through a model: on a processor in small batches of like lengths, on a GPU in few."""
    if device.type == "cpu":
        return Batching(device, longest, min(tokens, _CACHED), Room(), _SHORTEST)
    return Batching(device, longest, tokens, Room())


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Pairs in batches of like lengths; ``order`` (B,) has the place of each pair's logit among them."""

    batches: Sequence[PairBatch]
    order: Tensor

    @classmethod
    def of(cls, reranker: Reranker, pairs: Sequence[Pair], tokens: int) -> PairBatches:
        """Batches for the model's device, of at most ``tokens`` tokens."""
        device, texts = reranker.device, reranker.texts
        lengths = np.array(list(map(len, pairs)), np.int64)
        cut = list(batch_pairs_of(device, texts.max_length, tokens).cut(lengths))
        batches = [batch_of([pairs[row] for row in rows], texts.pad_id, width) for rows, width in cut]
        order = torch.from_numpy(np.argsort([row for rows, _ in cut for row in rows]))
        return cls([pin_all(batch, device) for batch in batches], pin(order, device))

    def logits(self, reranker: Reranker, precision: Precision = nullcontext) -> Tensor:
        """The logits, (B,), in float32, in the order of the pairs."""
        logits: list[Tensor] = []
        for batch in self.batches:
            with precision():
                logits.append(reranker.model(batch.to(reranker.device)).float())
        return torch.cat(logits)[self.order.to(reranker.device, non_blocking=True)]


class GroupTokens(NamedTuple):
    """Groups with the batches of their pairs, part by part.

    ``cut`` says of the pairs to count whether query and passage are cut, (pairs, 2).
    """

    parts: Sequence[tuple[Sequence[Group], PairBatches]]
    cut: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EndToEnd(PairScorer):
    """Pairs go through the whole model in batches of at most ``tokens`` tokens, padding included.

    ``make`` makes the tokens of pairs.
    """

    reranker: Reranker
    tokens: int
    precision: Precision
    make: MakePairs = make_pairs
    learned: CutCounts = field(default_factory=CutCounts, init=False)

    def read(self, groups: Sequence[Group], new: int) -> GroupTokens:
        pairs = iter(self.make(self.reranker, [pair for group in groups for pair in group.pairs]))
        tokenised = [list(islice(pairs, len(group.documents))) for group in groups]
        counted = [
            (pair.cut_query > 0, pair.cut_passage > 0)
            for group, own in zip(groups[:new], tokenised, strict=False)
            for pair in (own if group.counts_relevant else own[1:])
        ]
        parts, device, longest = [], self.reranker.device, self.reranker.texts.max_length
        sizes = [len(own) * batch_width(own, device, longest) for own in tokenised]
        for rows in batch_by_length(sizes, self.tokens):
            batches = PairBatches.of(self.reranker, [p for row in rows for p in tokenised[row]], self.tokens)
            parts.append(([groups[row] for row in rows], batches))
        return GroupTokens(parts, np.array(counted).reshape(-1, 2))

    def group_logits(self, batch: GroupTokens) -> Iterator[GroupLogits]:
        self.learned.add(batch.cut)
        for number, (groups, batches) in enumerate(batch.parts, 1):
            logits = batches.logits(self.reranker, self.precision)
            yield GroupLogits(groups, logits.view(len(groups), -1), number == len(batch.parts))

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        device, scores = self.reranker.device, list[float]()
        batching = batch_pairs_of(device, self.reranker.texts.max_length, self.tokens)

        def compute(rows: Sequence[int], width: int) -> Tensor:
            batch = batch_of([tokens[row] for row in rows], self.reranker.texts.pad_id, width)
            with self.precision():
                logits: Tensor = self.reranker.model(pin_all(batch, device).to(device)).float()
            return logits

        with evaluating(self.reranker.model):
            for first in range(0, len(pairs), _CHUNK):
                tokens = self.make(self.reranker, pairs[first : first + _CHUNK])
                lengths = np.array(list(map(len, tokens)), np.int64)
                scores += batching.compute(lengths, compute, lambda _: None).fetch().tolist()
                progress("scoring pairs", len(scores), len(pairs))
        return scores

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress = silent) -> CutCounts:
        return CutCounts.of(self.reranker.texts, pairs, progress)


@dataclass(eq=False)
class Stored(PairScores):
    """A head over the stored features of its encoder, which runs on batches of ``tokens`` tokens."""

    encoder: FrozenEncoder
    store: FeatureStore
    hardware: TrainingDevice
    tokens: int

    @classmethod
    def of(
        cls, reranker: Reranker, folder: Path, hardware: TrainingDevice, tokens: int, **learned_from: Any
    ) -> Self:
        """Open the store of this encoder in a folder of stores; heads that read the same share it.

        Raises ModelError if the model has no encoder apart from its head.
        """
        model = reranker.encoder_ranker
        with hardware.precision():
            kind = hardware.device.type
            half: bool | str = torch.is_autocast_enabled(kind)  # such features are others
            if half and torch.get_autocast_dtype(kind) == torch.float16:
                half = "float16"
        sentences = f"sentences {RULES}, of a token by its last character"
        decided = f"{reranker.encoder_fingerprint}, {sentences}, half precision {half}"
        known = hashlib.sha256(decided.encode()).hexdigest()
        encoder = FrozenEncoder(model, reranker.texts, known, reranker.shape.language, hardware.precision)
        store = FeatureStore(folder, known, model.width, cls_only=model.pooled)
        return cls(encoder, store, hardware, tokens, **learned_from)

    def fill(self, pairs: Sequence[TextPair], progress: Progress = silent) -> None:
        """Encode the first process's pairs that are missing; each process encodes a share of them."""
        processes = self.hardware.processes
        self.store.fill(pairs, self.encoder, batch_tokens=self.tokens, processes=processes, progress=progress)

    def features(self, pairs: Sequence[TextPair]) -> PairFeatures:
        """The features of pairs that are in the store, on the processor."""
        return pin_all(self.store.batch(self.store.rows(pairs)), self.hardware.device)

    def logits(self, features: PairFeatures) -> Tensor:
        """The logits of the pairs with these features, (B,)."""
        logits: Tensor = self.encoder.model.head(features.to(self.hardware.device))
        return logits.float()

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        self.fill(pairs, progress)
        return super().share(pairs, processes, progress)

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The logits of any pairs, without dropout; this process encodes the missing ones first."""
        self.store.fill(pairs, self.encoder, batch_tokens=self.tokens, progress=progress)

        scores: list[float] = []
        with evaluating(self.encoder.model):
            for first in range(0, len(pairs), _FEATURES):
                scores += self.logits(self.features(pairs[first : first + _FEATURES])).tolist()
                progress("scoring pairs", len(scores), len(pairs))
        return scores

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress = silent) -> CutCounts:
        return CutCounts.of(self.encoder.texts, pairs, progress)


@dataclass(eq=False)
class FromStore(Stored, PairScorer):
    """Encodes the pairs of an epoch, or of a window of triples, before the first batch of it is learned from.

    Groups from number ``last`` on are never learned from.
    """

    groups: Groups
    last: int
    learned: CutCounts = field(default_factory=CutCounts, init=False)
    _ready: range = field(default=range(0), init=False)

    def prepare(self, numbers: range, progress: Progress) -> None:
        """Encode the pairs of these groups, and of all groups in the same window.

        Raises IndexFault if the disk cannot hold their features; before the first window, if it cannot hold
        those of all.
        """
        if numbers.start in self._ready and numbers.stop <= self._ready.stop:
            return
        size, continues = self.groups.window, numbers.start in self._ready
        begin = self._ready.stop if continues else numbers.start // size * size
        part = range(begin, min(-(-numbers.stop // size) * size, self.last))
        processes = self.hardware.processes
        groups: list[Group] = processes.alone(lambda: [self.groups[number] for number in part], [])
        pairs = list(dict.fromkeys(pair for group in groups for pair in group.pairs))
        shown = processes.alone(lambda: self._part_progress(part, pairs, progress), progress)
        self.fill(pairs, shown)
        processes.alone(lambda: self._count(part, groups, progress), None)
        self._ready = range(self._ready.start if continues else begin, part.stop)

    def read(self, groups: Sequence[Group], new: int) -> tuple[Sequence[Group], PairFeatures]:  # noqa: ARG002
        # prepare has counted the pairs
        return groups, self.features([pair for group in groups for pair in group.pairs])

    def group_logits(self, batch: tuple[Sequence[Group], PairFeatures]) -> Iterator[GroupLogits]:
        groups, features = batch
        if groups:
            yield GroupLogits(groups, self.logits(features).view(len(groups), -1), last=True)

    def _count(self, part: range, groups: Sequence[Group], progress: Progress) -> None:
        """Count the pairs of the groups that repeat no earlier ones, and were not counted before."""
        begin, end = max(part.start, self.learned.groups), min(part.stop, self._end)
        new = groups[begin - part.start : max(begin, end) - part.start]
        if new:
            pairs = [pair for group in new for pair in group.counted_pairs]
            self.learned.add(tokenize_pairs(self.encoder.texts, pairs, None, progress).find_cut())
            self.learned.groups = end

    def _part_progress(self, part: range, pairs: Sequence[TextPair], progress: Progress) -> Progress:
        """``progress``, labelled with the part and an estimate of all features if other parts will follow."""
        missing = self.store.missing(pairs)
        if not missing or part.stop >= self._end:
            return progress
        sample = missing[:: -(-len(missing) // _SAMPLE)]
        size = self.store.estimate(sample, self.encoder) * len(missing) // len(sample)

        def remaining() -> int:
            drawn = size / len(part) * (self._end - part.start)
            return int(min(drawn, size / len(missing) * self.groups.most_pairs))

        folder = self.store.folder
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if not self._ready and remaining() > free:
            len(self.groups)  # counts a file of triples, which may be shorter than the training
            if remaining() > free:
                first = f"the features of {len(part):,} groups take about {gigabytes(size)}"
                every = f"those of all {self._end - part.start:,} about {gigabytes(remaining())}"
                problem = f"{first}, {every}, and the disk has {gigabytes(free)} left"
                raise IndexFault(f"{folder}: {problem}")
        groups = f"groups {part.start + 1:,} to {part.stop:,} of {self._end:,}"
        label = f"{groups}, about {gigabytes(remaining())} with those to come"
        return lambda what, done, total: progress(f"{what}: {label}", done, total)

    @property
    def _end(self) -> int:
        """The first group that repeats pairs of earlier ones, or is never learned from."""
        return int(min(self.last, self.groups.repeats_from))
