"""Compute the logits of pairs of texts end to end: pairs of like length together.

======  ==============================================================================================
``B``   pairs
``N``   documents of a group
======  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from telerank.batches import batch_by_length
from telerank.models.inference import batch_width, batch_widths, pin
from telerank.models.pairs.pair import Pair, PairBatch, PairTexts, batch_of
from telerank.models.precision import Precision
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.texts import TextPair, make_pairs, tokenize_pairs
from telerank.training.ahead import pin_all
from telerank.training.examples.groups import Group
from telerank.training.parallel import Processes, share_by_length
from telerank.training.task import evaluating
from telerank.types import Doc, Progress, silent

MakePairs: TypeAlias = Callable[[Reranker, Sequence[TextPair]], list[Pair]]
_CHUNK = 4096  # pairs whose tokens are in memory
_CACHED = 2048  # tokens; larger batches do not fit a processor's cache
_SHORTEST = 2 / 3  # of the longest pair of a processor's batch: at most a third of it is padding


class PairScores(Protocol):
    """Scores pairs of a query and a document, without dropout."""

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:
        """The scores of any number of pairs."""

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        """The scores of the first process's pairs, each process computing a share; others get none."""

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress) -> tuple[CutCounts, int | None]:
        """What is cut of pairs, and in how many the title is, if titles are cut by themselves."""


class PairScorer(PairScores, Protocol):
    """Computes the logits of pairs to learn from, too, and counts the pairs learned from."""

    @property
    def learned(self) -> CutCounts:
        """The counts, to be added to."""

    def prepare(self, numbers: range, progress: Progress) -> None:
        """Prepare the groups with these numbers."""

    def read(self, groups: Sequence[Group], new: int) -> Any:
        """The tensors of groups. The first ``new`` are counted: the others repeat earlier ones."""

    def group_logits(self, batch: Any) -> Iterator[GroupLogits]:
        """The logits of what was :meth:`read`, in parts: a graph can be freed before the next is built."""


class GroupLogits(NamedTuple):
    """Some groups with their logits, (B, N); ``last`` if no others follow."""

    groups: Sequence[Group]
    logits: Tensor
    last: bool


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


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Pairs in batches of like lengths; ``order`` (B,) has the place of each pair's logit among them."""

    batches: Iterable[PairBatch]
    order: Tensor

    @classmethod
    def of(cls, reranker: Reranker, pairs: Sequence[Pair], tokens: int) -> PairBatches:
        """Batches for the model's device; each is made when it is asked for. ``tokens`` bounds a batch."""
        device, texts = reranker.device, reranker.texts
        lengths = np.array([len(pair) for pair in pairs], np.int64)
        widths = batch_widths(lengths, device, texts.max_length)
        parts = list(cut_batches(widths, tokens, device))
        batches = (
            batch_of([pairs[row] for row in rows], texts.pad_id, int(widths[rows].max())) for rows in parts
        )
        order = np.argsort([row for rows in parts for row in rows])
        return cls((pin_all(batch, device) for batch in batches), pin(torch.from_numpy(order), device))

    def logits(self, reranker: Reranker, precision: Precision = nullcontext) -> Tensor:
        """The logits, (B,), in float32, in the order of the pairs."""
        device = reranker.device
        logits: list[Tensor] = []
        for batch in self.batches:
            with precision():
                logits.append(reranker.model(batch.to(device)).float())
        return torch.cat(logits)[self.order.to(device, non_blocking=True)]


def compute_logits(
    reranker: Reranker, pairs: Sequence[Pair], tokens: int, precision: Precision = nullcontext
) -> Tensor:
    """The logits of pairs, (B,), in float32, in the order of the pairs; ``tokens`` bounds a batch."""
    return PairBatches.of(reranker, pairs, tokens).logits(reranker, precision)


def cut_batches(
    lengths: Sequence[int] | npt.NDArray[np.int64], tokens: int, device: torch.device
) -> Iterator[list[int]]:
    """The rows of the pairs, given by their lengths, that go through a model together.

    On a processor batches are small, and of lengths that differ little; on a GPU they are few.
    """
    if device.type == "cpu":
        return batch_by_length(lengths, min(tokens, _CACHED), shortest=_SHORTEST)
    return batch_by_length(lengths, tokens)


def score_chunks(
    model: nn.Module,
    pairs: Sequence[TextPair],
    size: int,
    logits: Callable[[Sequence[TextPair]], Tensor],
    progress: Progress,
) -> list[float]:
    """The logits of pairs, ``size`` pairs at a time, with the model in evaluation mode."""
    scores: list[float] = []
    with evaluating(model):
        for first in range(0, len(pairs), size):
            scores += logits(pairs[first : first + size]).tolist()
            progress("scoring pairs", len(scores), len(pairs))
    return scores


@dataclass
class CutCounts:
    """Number of pairs, and of those whose query, or whose passage, is longer than the model reads.

    The groups of a training up to number ``groups`` are counted.
    """

    pairs: int = 0
    queries: int = 0
    passages: int = 0
    groups: int = 0

    def add(self, cut: npt.NDArray[np.bool_]) -> None:
        """Count pairs; ``cut`` says whether the query and the passage of each are cut, (pairs, 2)."""
        self.pairs += len(cut)
        self.queries += int(cut[:, 0].sum())
        self.passages += int(cut[:, 1].sum())

    def describe(self, pairs: str) -> dict[str, int]:
        """The counts by description; ``pairs`` is what they are of."""
        whose = {
            f"{pairs} whose query was cut": self.queries,
            f"{pairs} whose document was cut": self.passages,
        }
        return {pairs: self.pairs, **whose}


def count_cut(texts: PairTexts, pairs: Sequence[TextPair], progress: Progress = silent) -> CutCounts:
    """Count the pairs that are cut; each distinct text is tokenised once."""
    counts = CutCounts()
    counts.add(tokenize_pairs(texts, pairs, None, progress).find_cut())
    return counts


class GroupTokens(NamedTuple):
    """Groups with the batches of their pairs, part by part.

    ``cut`` says of the pairs to count whether query and passage are cut, (pairs, 2).
    """

    parts: Sequence[tuple[Sequence[Group], PairBatches]]
    cut: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EndToEnd:
    """Pairs go through the whole model in batches of at most ``tokens`` tokens, padding included.

    ``make`` makes the tokens of pairs.
    """

    reranker: Reranker
    tokens: int
    precision: Precision
    make: MakePairs = make_pairs
    learned: CutCounts = field(default_factory=CutCounts, init=False)

    def prepare(self, numbers: range, progress: Progress) -> None:
        pass

    def read(self, groups: Sequence[Group], new: int) -> GroupTokens:
        pairs = iter(self.make(self.reranker, [pair for group in groups for pair in group.pairs]))
        tokenised = [list(islice(pairs, len(group.documents))) for group in groups]
        counted = [
            pair
            for group, own in zip(groups[:new], tokenised, strict=False)
            for pair in (own if group.counts_relevant else own[1:])
        ]
        cut = np.array([(pair.cut_query > 0, pair.cut_passage > 0) for pair in counted]).reshape(-1, 2)
        parts = []
        device, most = self.reranker.device, self.reranker.texts.max_length
        sizes = [len(group) * batch_width(group, device, most) for group in tokenised]
        for rows in batch_by_length(sizes, self.tokens):
            batches = PairBatches.of(self.reranker, [p for row in rows for p in tokenised[row]], self.tokens)
            listed = PairBatches(list(batches.batches), batches.order)
            parts.append(([groups[row] for row in rows], listed))
        return GroupTokens(parts, cut)

    def group_logits(self, batch: GroupTokens) -> Iterator[GroupLogits]:
        self.learned.add(batch.cut)
        for number, (groups, batches) in enumerate(batch.parts, 1):
            logits = batches.logits(self.reranker, self.precision)
            yield GroupLogits(groups, logits.view(len(groups), -1), number == len(batch.parts))

    def share(self, pairs: Sequence[TextPair], processes: Processes, progress: Progress) -> list[float]:
        return share_scores(processes, pairs, lambda own, _: self.score(own, progress))

    def count_cut(self, pairs: Sequence[TextPair], progress: Progress) -> tuple[CutCounts, int | None]:
        return count_cut(self.reranker.texts, pairs, progress), None

    def score(self, pairs: Sequence[TextPair], progress: Progress = silent) -> list[float]:

        def logits(chunk: Sequence[TextPair]) -> Tensor:
            pairs = self.make(self.reranker, chunk)
            return compute_logits(self.reranker, pairs, self.tokens, self.precision)

        return score_chunks(self.reranker.model, pairs, _CHUNK, logits, progress)
