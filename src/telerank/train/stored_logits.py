"""Pairs to logits where the encoder is frozen: it is run once for each pair, then its outputs are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from telerank.errors import ModelError
from telerank.models.encoder_ranker import EncoderRanker
from telerank.models.identity import encoder_fingerprint
from telerank.models.mlp import ClsMlp
from telerank.models.reranker import Reranker
from telerank.train.feature_store import FeatureStore
from telerank.train.frozen_encoder import FrozenEncoder, TextPair
from telerank.train.groups import Group, Groups
from telerank.train.pair_logits import scores
from telerank.train.task import Place
from telerank.types import Progress, silent

_AT_ONCE = 256  # pairs whose features are in memory, when they are scored


@dataclass(eq=False)
class Stored:
    """A head over the stored features of its encoder, which is run ``tokens`` at a time."""

    model: EncoderRanker
    encoder: FrozenEncoder
    store: FeatureStore
    place: Place
    tokens: int

    @classmethod
    def of(cls, reranker: Reranker, folder: Path, place: Place, tokens: int) -> Stored:
        """The store of this encoder in a folder for those of many: one for all heads that read as much.

        Raises
        ------
        ModelError
            where the model has no encoder apart from its head.
        """
        model = reranker.model
        if not isinstance(model, EncoderRanker):
            raise ModelError(f"a {reranker.shape.kind} has no encoder that could be frozen")
        known = encoder_fingerprint(reranker)
        with place.precision():
            if torch.is_autocast_enabled(place.device.type):  # such features are others
                known = hashlib.sha256(f"{known} in half precision".encode()).hexdigest()
        encoder = FrozenEncoder(model, reranker.texts, known, reranker.shape.language, place.precision)
        store = FeatureStore.open(folder, known, model.width, cls_only=isinstance(model.head, ClsMlp))
        return cls(model, encoder, store, place, tokens)

    def fill(self, pairs: Sequence[TextPair], progress: Progress = silent) -> None:
        """Encode what is missing."""
        self.store.fill(pairs, self.encoder, batch_tokens=self.tokens, progress=progress)

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
        """Have the features of these groups, and of all that are at hand with them."""
        if wanted.start in self._ready and wanted.stop <= self._ready.stop:
            return
        size = self.groups.stretch
        begin, end = wanted.start // size * size, -(-wanted.stop // size) * size
        self._ready = range(begin, min(end, self.last))
        if self.stored.place.processes.leads:
            pairs = (pair for number in self._ready for pair in self.groups[number].pairs)
            self.stored.fill(list(dict.fromkeys(pairs)), progress)
        else:
            self.stored.reopen()

    def parts(self, groups: Sequence[Group]) -> Iterator[tuple[Sequence[Group], Tensor]]:
        """All of the groups with their logits, (groups, documents of a group)."""
        if groups:
            found = self.stored.logits([pair for group in groups for pair in group.pairs])
            yield groups, found.view(len(groups), -1)

    def scores(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """As :meth:`Stored.scores`."""
        return self.stored.scores(pairs, progress)
