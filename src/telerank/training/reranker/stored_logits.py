"""Pairs to logits where the encoder is frozen: it is run once for each pair, then its outputs are read."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from telerank.errors import IndexFault, ModelError
from telerank.models.identity import encoder_fingerprint
from telerank.models.rerankers.bert import ClsMlp
from telerank.models.rerankers.encoder_ranker import EncoderRanker
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair
from telerank.text.sentences import RULES
from telerank.training.features.filling import gigabytes
from telerank.training.features.frozen_encoder import FrozenEncoder
from telerank.training.features.store import FeatureStore
from telerank.training.reranker.groups import Group, Groups, Listed, QrelGroups
from telerank.training.reranker.pair_logits import scores
from telerank.training.reranker.triples import TripleGroups
from telerank.training.task import TrainingDevice
from telerank.types import Progress, silent

_AT_ONCE = 256  # pairs whose features are in memory, when they are scored
_ASKED = 1024  # pairs that tell how much many take


@dataclass(eq=False)
class Stored:
    """A head over the stored features of its encoder, which is run ``tokens`` at a time."""

    model: EncoderRanker
    encoder: FrozenEncoder
    store: FeatureStore
    place: TrainingDevice
    tokens: int

    @classmethod
    def of(cls, reranker: Reranker, folder: Path, place: TrainingDevice, tokens: int) -> Stored:
        """The store of this encoder in a folder for those of many: one for all heads that read as much.

        Raises
        ------
        ModelError
            where the model has no encoder apart from its head.
        """
        model = reranker.model
        if not isinstance(model, EncoderRanker):
            raise ModelError(f"a {reranker.shape.kind} has no encoder that could be frozen")
        with place.precision():
            half = torch.is_autocast_enabled(place.device.type)  # such features are others
        sentences = f"sentences {RULES}, of a token by its last character"
        decided = f"{encoder_fingerprint(reranker)}, {sentences}, half precision {half}"
        known = hashlib.sha256(decided.encode()).hexdigest()
        encoder = FrozenEncoder(model, reranker.texts, known, reranker.shape.language, place.precision)
        store = FeatureStore.open(folder, known, model.width, cls_only=isinstance(model.head, ClsMlp))
        return cls(model, encoder, store, place, tokens)

    def fill(self, pairs: Sequence[TextPair], progress: Progress = silent) -> None:
        """Encode what is missing."""
        self.store.fill(pairs, self.encoder, batch_tokens=self.tokens, progress=progress)

    def estimate(self, missing: Sequence[TextPair]) -> int:
        """About how many bytes :meth:`fill` would add for these pairs: the tokens of some are counted."""
        some = missing[:: -(-len(missing) // _ASKED)]
        return self.store.estimate(some, self.encoder) * len(missing) // len(some)

    @property
    def free(self) -> int:
        """How many bytes the disk has left."""
        self.store.folder.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.store.folder).free

    def reopen(self) -> None:
        """See what another process has filled in."""
        told = self.store.manifest
        folder = self.store.folder.parent
        self.store = FeatureStore.open(folder, told.fingerprint, told.width, cls_only=told.cls_only)

    def logits(self, pairs: Sequence[TextPair]) -> Tensor:
        """The logits of pairs that are there, (B,)."""
        features = self.store.batch(self.store.rows(pairs)).to(self.place.device)
        logits: Tensor = self.model.head(features)
        return logits.float()

    def scores(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The logits of any pairs, without dropout."""
        self.fill(pairs, progress)

        def some(first: int) -> Tensor:
            return self.logits(pairs[first : first + _AT_ONCE])

        return scores(self.model, some, len(pairs), _AT_ONCE, progress)


@dataclass(eq=False)
class FromStore:
    """Before the first batch of an epoch (of a window of triples) is learned from, its pairs are encoded.

    Groups from number ``last`` on are never learned from.
    """

    stored: Stored
    groups: Groups
    last: int
    _ready: range = field(default=range(0), init=False)

    def prepare(self, wanted: range, progress: Progress) -> None:
        """Have the features of these groups, and of all that are at hand with them.

        Raises
        ------
        IndexFault
            where the disk cannot hold them; before the first, where it cannot hold those of all to come.
        """
        if wanted.start in self._ready and wanted.stop <= self._ready.stop:
            return
        size, goes_on = self.groups.stretch, wanted.start in self._ready
        begin = self._ready.stop if goes_on else wanted.start // size * size
        part = range(begin, min(-(-wanted.stop // size) * size, self.last))
        if self.stored.place.processes.leads:
            pairs = list(dict.fromkeys(pair for number in part for pair in self.groups[number].pairs))
            self.stored.fill(pairs, self._of_more(part, pairs, progress))
        else:
            self.stored.reopen()
        self._ready = range(self._ready.start if goes_on else begin, part.stop)

    def _of_more(self, part: range, pairs: Sequence[TextPair], progress: Progress) -> Progress:
        """``progress``; where pairs of later groups follow, it is told that these are a part."""
        missing = self.stored.store.missing(pairs)
        if not missing or part.stop >= self._new:
            return progress
        size = self.stored.estimate(missing)

        def to_come() -> int:
            drawn = size / len(part) * (self._new - part.start)
            return int(min(drawn, size / len(missing) * _most(self.groups)))

        free = self.stored.free
        if not self._ready and to_come() > free:
            len(self.groups)  # counts a file of triples, which may be shorter than the training is long
            if to_come() > free:
                told = f"the features of {len(part):,} groups take about {gigabytes(size)}"
                more = f"those of all {self._new - part.start:,} about {gigabytes(to_come())}"
                says = f"{told}, {more}, and the disk has {gigabytes(free)} left"
                raise IndexFault(f"{self.stored.store.folder}: {says}")
        which = f"groups {part.start + 1:,} to {part.stop:,} of {self._new:,}"
        says = f"{which}, about {gigabytes(to_come())} with those to come"
        return lambda what, done, total: progress(f"{what}: {says}", done, total)

    @property
    def _new(self) -> int:
        """Groups from this number on have pairs of groups before; a file not counted is taken to be long."""
        groups = self.groups
        draws = isinstance(groups, QrelGroups) and groups.resample
        if draws or (isinstance(groups, TripleGroups) and not groups.counted):
            return self.last
        return min(self.last, len(groups))

    def parts(self, groups: Sequence[Group]) -> Iterator[tuple[Sequence[Group], Tensor]]:
        """All of the groups with their logits, (groups, documents of a group)."""
        if groups:
            found = self.stored.logits([pair for group in groups for pair in group.pairs])
            yield groups, found.view(len(groups), -1)

    def scores(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """As :meth:`Stored.scores`."""
        return self.stored.scores(pairs, progress)


def _most(groups: Groups) -> float:
    """How many pairs negatives that are drawn anew can make."""
    if isinstance(groups, QrelGroups) and isinstance(groups.source, Listed):
        return len(groups.pairs) + sum(map(len, groups.source.lists.values()))
    return math.inf
