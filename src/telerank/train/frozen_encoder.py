"""A frozen encoder as a store of features sees it: pairs of texts to tokens, tokens to features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from telerank.models.encoder_ranker import EncoderRanker
from telerank.models.features import PairFeatures
from telerank.models.pairs import Pair, PairTexts, Passage, batch_of
from telerank.text.sentences import split_sentences
from telerank.types import Progress, silent

_AT_ONCE = 4096  # passages whose sentences are looked for at a time

TextPair: TypeAlias = tuple[str, str]
"""The texts of a query and of a passage."""


class PairEncoder(Protocol):
    """What makes features of pairs."""

    @property
    def fingerprint(self) -> str:
        """The identity of all that decides a feature."""

    @property
    def width(self) -> int:
        """``H``."""

    def tokens(self, pairs: Sequence[TextPair], progress: Progress = silent) -> Joined:
        """The tokens of pairs, cut and joined."""

    def features(self, pairs: Sequence[Pair]) -> PairFeatures:
        """The features of a batch; the same whatever mode a model is in."""


@dataclass(frozen=True, eq=False)
class Joined:
    """The tokens of pairs, each joined when it is asked for; each text was tokenised once."""

    texts: PairTexts
    queries: Sequence[npt.NDArray[np.int32]]
    passages: Sequence[Passage]
    pairs: npt.NDArray[np.int64]

    def __getitem__(self, place: int) -> Pair:
        query, passage = self.pairs[place].tolist()
        return self.texts.pair(self.queries[query], self.passages[passage])

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """``model``'s encoder; sentences are split in ``language``, also for a head that does not read them.

    So one store serves every head. ``precision`` makes the context in which the encoder runs: autocast, or
    another precision of float32.
    """

    model: EncoderRanker
    texts: PairTexts
    fingerprint: str
    language: str = "en"
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext

    @property
    def width(self) -> int:
        return self.model.width

    def tokens(self, pairs: Sequence[TextPair], progress: Progress = silent) -> Joined:
        """The tokens of pairs, cut and joined."""
        queries = {text: place for place, text in enumerate(dict.fromkeys(query for query, _ in pairs))}
        passages = {text: place for place, text in enumerate(dict.fromkeys(text for _, text in pairs))}
        places = np.array([(queries[query], passages[text]) for query, text in pairs], np.int64)
        asked = self.texts.queries(list(queries))
        read: list[Passage] = []
        for some in _batched(passages, _AT_ONCE):
            read += self.texts.passages(some, [split_sentences(text, self.language) for text in some])
            progress("tokenising passages", len(read), len(passages))
        return Joined(self.texts, asked, read, places.reshape(-1, 2))

    def features(self, pairs: Sequence[Pair]) -> PairFeatures:
        """The features of a batch, without dropout, in float32."""
        device = next(self.model.parameters()).device
        batch = batch_of(pairs, self.texts.pad_id).to(device)
        with _evaluating(self.model.encoder), torch.no_grad(), self.precision():
            return self.model.features(batch)


def _batched(items: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(items)
    while some := list(islice(stream, size)):
        yield some


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    mode = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(mode)
