"""What requests ask of models, the texts that wait, and which of them are the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Request_contra = TypeVar("Request_contra", contravariant=True)
Content = TypeVar("Content")

Results: TypeAlias = npt.NDArray[Any]  # a row for each text: scores (n,) or vectors (n, D)


@dataclass(frozen=True)
class PairsToScore:
    """Pairs of a query and a passage.

    A passage is cut at ``max_tokens``, and a pair where the model's input ends; ``left`` cuts the beginning
    of the passage then, instead of its end.
    """

    pairs: Sequence[tuple[str, str]]
    max_tokens: int | None = None
    left: bool = False

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def texts(self) -> list[str]:
        """The texts of all pairs, each query once."""
        return [*dict.fromkeys(query for query, _ in self.pairs), *(text for _, text in self.pairs)]


@dataclass(frozen=True)
class TextsToEncode:
    """Texts of one side; without ``normalise`` vectors keep their lengths, if the model divides by them."""

    texts: Sequence[str]
    queries: bool = False
    normalise: bool = True

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(eq=False)
class TokenizedWork(Generic[Content]):
    """A request on its way: its tokens, the rows that wait for a batch, and at last its results.

    ``content`` is what the model computes. ``lengths`` (n,) counts the tokens of each text, ``cut`` (n,) says
    what is cut. Only texts of one ``lane`` go into one batch. ``began`` is when the request came, by the
    clock of the event loop. ``left`` has the rows that wait, the longest first, ``tokens_left`` in all;
    ``missing`` are those without a result. ``seconds`` are those of each step: waiting (``queue``), being
    tokenised (``tokenise``), and in batches that are computed (``infer``).
    """

    content: Content
    lengths: npt.NDArray[np.int64]
    cut: npt.NDArray[np.bool_]
    lane: Hashable = None
    began: float = field(default=0.0, init=False)
    seconds: dict[str, float] = field(default_factory=lambda: {"queue": 0.0, "tokenise": 0.0, "infer": 0.0})
    results: Any = field(default=None, init=False)
    done: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.argsort(-self.lengths, kind="stable")
        self.tokens_left, self.missing = self.tokens, len(self.left)

    @property
    def tokens(self) -> int:
        """The tokens that are read."""
        return int(self.lengths.sum())

    def take(self, rows: npt.NDArray[np.int64]) -> None:
        self.left = self.left[~np.isin(self.left, rows)]
        self.tokens_left -= int(self.lengths[rows].sum())

    def fill(self, rows: npt.NDArray[np.int64], results: Results, seconds: float) -> None:
        """Keep the results of rows; the last ones complete the work."""
        if self.results is None:
            self.results = np.empty((len(self.lengths), *results.shape[1:]), results.dtype)
        self.results[rows] = results
        self.seconds["infer"] += seconds
        self.missing -= len(rows)
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class BatchedModel(Protocol[Request_contra, Content]):
    """A model that computes rows of several requests as one batch; a row does not depend on the others."""

    @property
    def budget(self) -> int:
        """The tokens of a batch at most, padding included."""

    def tokenize(self, request: Request_contra) -> TokenizedWork[Content]:
        """The tokens of a request; called by one thread at a time, while another computes."""

    def compute(self, parts: Sequence[tuple[Content, Sequence[int]]]) -> Results:
        """The results of rows of several requests of one lane, one request after the other."""


_NEAR = 4  # budgets: so many tokens of the first requests are searched for texts of one length
_COST = 16  # a batch costs a 16th of the largest one besides its own tokens

BatchParts: TypeAlias = Sequence[tuple[TokenizedWork[Any], npt.NDArray[np.int64]]]  # the rows of each


def take_batch(waiting: list[TokenizedWork[Any]], budget: int, *, shortest: bool) -> BatchParts:
    """Take the next batch from the requests that wait, in the order in which they came.

    It has at most ``budget`` tokens with its padding; a longer text is alone. Every second batch begins with
    the request that has waited longest, so that each is served; the others begin with the ``shortest``, which
    has least left, so that it does not wait for a long one to end. A batch begins with the longest text of
    that request, and is filled with those next in length, of its own and of the requests after it, as long as
    little is padded.
    """
    ordered = sorted(waiting, key=lambda work: work.tokens_left) if shortest else waiting
    chosen, tokens = list[TokenizedWork[Any]](), 0
    # the first request, and those of its lane after it, until they have enough texts to choose from
    for work in ordered:
        if work.lane == ordered[0].lane and tokens < _NEAR * budget:
            chosen.append(work)
            tokens += work.tokens_left
    lengths = np.concatenate([work.lengths[work.left] for work in chosen])
    rows = np.concatenate([work.left for work in chosen])
    owners = np.repeat(np.arange(len(chosen)), [len(work.left) for work in chosen])
    batch = _fill(lengths, budget)
    parts = [(work, rows[batch[owners[batch] == owner]]) for owner, work in enumerate(chosen)]
    parts = [(work, taken) for work, taken in parts if len(taken)]
    for work, taken in parts:
        work.take(taken)
    waiting[:] = [work for work in waiting if len(work.left)]
    return parts


def _fill(lengths: npt.NDArray[np.int64], budget: int) -> npt.NDArray[np.int64]:
    """The places of the texts that go into a batch with the first one.

    A batch costs as much as some tokens, besides its own: texts are left to another one where that saves
    more padding than it costs.
    """
    width, cost = int(lengths[0]), budget // _COST
    shorter = np.flatnonzero(lengths <= width)
    shorter = shorter[np.argsort(-lengths[shorter], kind="stable")][: max(1, budget // max(1, width))]
    saved = np.arange(len(shorter) - 1, 0, -1) * (width - lengths[shorter[1:]])
    if saved.max(initial=0) > cost:
        shorter = shorter[: int(saved.argmax()) + 1]
    longer = np.flatnonzero((lengths > width) & ((lengths - width) * len(shorter) <= cost))
    order = np.concatenate([shorter, longer[np.argsort(lengths[longer], kind="stable")]])
    padded = np.maximum.accumulate(lengths[order]) * np.arange(1, len(order) + 1)
    return order[: max(1, int((padded <= budget).sum()))]
