"""Pairs of texts to logits: those of like length together, so many tokens at a time.

======  ==============================================================================================
``B``   pairs
``N``   documents of a group
======  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from telerank.batches import batch_by_length
from telerank.models.pairs.pair import Pair, batch_of
from telerank.models.precision import Precision
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, pair_texts
from telerank.training.reranker.groups import Group
from telerank.types import Progress, silent

_AT_ONCE = 4096  # pairs whose tokens are in memory
_CACHED = 2048  # tokens; larger batches fall out of a processor's cache
_SHORTEST = 2 / 3  # of the longest pair of a batch: at most a third of it is padding


def logits(
    reranker: Reranker, pairs: Sequence[Pair], tokens: int, precision: Precision = nullcontext
) -> Tensor:
    """The logits of pairs, (B,), in float32, in the order of the pairs."""
    device = next(reranker.model.parameters()).device
    order: list[int] = []
    made: list[Tensor] = []
    for places in parts([len(one) for one in pairs], tokens, device):
        batch = batch_of([pairs[place] for place in places], reranker.texts.pad_id).to(device)
        with precision():
            made.append(reranker.model(batch).float())
        order += places
    return torch.cat(made)[torch.from_numpy(np.argsort(order)).to(device)]


def parts(lengths: Sequence[int], tokens: int, device: torch.device) -> Iterator[list[int]]:
    """The places of pairs of so many tokens that go through a model together."""
    if device.type == "cpu":
        tokens = min(tokens, _CACHED)
    return batch_by_length(lengths, tokens, shortest=_SHORTEST)


def scores(
    model: nn.Module, some: Callable[[int], Tensor], count: int, at_once: int, progress: Progress
) -> list[float]:
    """What ``some`` gives of each stretch of ``at_once``, with the model in evaluation mode."""
    mode = model.training
    model.eval()
    found: list[float] = []
    try:
        with torch.no_grad():
            for first in range(0, count, at_once):
                found += some(first).tolist()
                progress("scoring pairs", len(found), count)
    finally:
        model.train(mode)
    return found


@dataclass(frozen=True, eq=False)
class EndToEnd:
    """Pairs go through the whole model, so many ``tokens`` at a time, padding counted."""

    reranker: Reranker
    tokens: int
    precision: Precision

    def prepare(self, wanted: range, progress: Progress) -> None:
        pass

    def parts(self, groups: Sequence[Group]) -> Iterator[tuple[Sequence[Group], Tensor]]:
        """Some of the groups with their logits, (B, N): a part's graph may go before the next is made."""
        pairs = iter(self._read([pair for group in groups for pair in group.pairs]))
        read = [list(islice(pairs, len(group.documents))) for group in groups]
        sizes = [len(group) * max(len(pair) for pair in group) for group in read]
        for places in batch_by_length(sizes, self.tokens):
            some = [pair for place in places for pair in read[place]]
            found = logits(self.reranker, some, self.tokens, self.precision)
            yield [groups[place] for place in places], found.view(len(places), -1)

    def scores(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The logits of any number of pairs, without dropout."""

        def some(first: int) -> Tensor:
            read = self._read(pairs[first : first + _AT_ONCE])
            return logits(self.reranker, read, self.tokens, self.precision)

        return scores(self.reranker.model, some, len(pairs), _AT_ONCE, progress)

    def _read(self, pairs: Sequence[TextPair]) -> list[Pair]:
        return pair_texts(self.reranker, [query for query, _ in pairs], [passage for _, passage in pairs])
