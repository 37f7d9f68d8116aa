"""Compute the logits of a frozen encoder's head; the encoder runs only once for each pair."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from telerank.errors import IndexFault
from telerank.models.pairs.pair import PairFeatures
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, tokenize_pairs
from telerank.text.sentences import RULES
from telerank.training.ahead import pin_all
from telerank.training.examples.groups import Group, Groups
from telerank.training.features.filling import FrozenEncoder, gigabytes
from telerank.training.features.store import FeatureStore
from telerank.training.parallel import Processes
from telerank.training.reranker.pair_logits import (
    CutCounts,
    GroupLogits,
    count_cut,
    score_chunks,
    share_scores,
)
from telerank.training.task import TrainingDevice
from telerank.types import Progress, silent

_CHUNK = 256  # pairs whose features are in memory, when they are scored
_SAMPLE = 1024  # pairs whose tokens are counted for an estimate


@dataclass(eq=False)
class Stored:
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

    def estimate(self, missing: Sequence[TextPair]) -> int:
        """About how many bytes :meth:`fill` would add for these pairs, from the tokens of a sample."""
        sample = missing[:: -(-len(missing) // _SAMPLE)]
        return self.store.estimate(sample, self.encoder) * len(missing) // len(sample)

    def features(self, pairs: Sequence[TextPair]) -> PairFeatures:
        """The features of pairs that are in the store, on the processor."""
        return pin_all(self.store.batch(self.store.rows(pairs)), self.hardware.device)

    def logits(self, features: PairFeatures) -> Tensor:
        """The logits of the pairs with these features, (B,)."""
        logits: Tensor = self.encoder.model.head(features.to(self.hardware.device))
        return logits.float()

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        self.fill(pairs, progress)
        return share_scores(processes, pairs, lambda own, _: self.score(own, progress))

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress) -> tuple[CutCounts, int | None]:
        return count_cut(self.encoder.texts, pairs, progress), None

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The logits of any pairs, without dropout; this process encodes the missing ones first."""
        self.store.fill(pairs, self.encoder, batch_tokens=self.tokens, progress=progress)

        def logits(chunk: Sequence[TextPair]) -> Tensor:
            return self.logits(self.features(chunk))

        return score_chunks(self.encoder.model, pairs, _CHUNK, logits, progress)


@dataclass(eq=False)
class FromStore(Stored):
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
        size = self.estimate(missing)

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

    def read(self, groups: Sequence[Group], new: int) -> tuple[Sequence[Group], PairFeatures]:  # noqa: ARG002
        # prepare has counted the pairs
        return groups, self.features([pair for group in groups for pair in group.pairs])

    def group_logits(self, batch: tuple[Sequence[Group], PairFeatures]) -> Iterator[GroupLogits]:
        groups, features = batch
        if groups:
            yield GroupLogits(groups, self.logits(features).view(len(groups), -1), last=True)
