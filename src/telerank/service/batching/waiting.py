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


@dataclass(frozen=True)
class TextsToEncode:
    """Texts of one side; without ``normalise`` vectors keep their lengths, if the model divides by them."""

    texts: Sequence[str]
    queries: bool = False
    normalise: bool = True

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, eq=False)
class TokenizedWork(Generic[Content]):
    """The tokens of a request: ``lengths`` (n,) counts them for each text, ``cut`` (n,) says what is cut.

    ``content`` is what the model computes. Only texts of one ``lane`` go into one batch.
    """

    content: Content
    lengths: npt.NDArray[np.int64]
    cut: npt.NDArray[np.bool_]
    lane: Hashable = None


@dataclass(frozen=True, eq=False)
class BatchedReply:
    """The results of a request in the order of its texts; which of them were cut; their tokens.

    ``seconds`` are those of each step: waiting (``queue``), being tokenised (``tokenise``), and in batches
    that are computed (``infer``).
    """

    results: Results
    lengths: npt.NDArray[np.int64]
    cut: npt.NDArray[np.bool_]
    seconds: dict[str, float]

    @property
    def tokens(self) -> int:
        """The tokens that were read."""
        return int(self.lengths.sum())


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

BatchParts: TypeAlias = Sequence[tuple["Job", npt.NDArray[np.int64]]]  # the rows of each of several jobs


@dataclass(eq=False)
class Job:
    """A request's texts on their way: ``left`` has the rows that wait, the longest first, ``tokens`` in all.

    ``began`` is when it came, by the event loop's clock; ``missing`` are the rows without a result.
    """

    work: TokenizedWork[Any]
    began: float
    done: asyncio.Future[None]
    left: npt.NDArray[np.int64] = field(init=False)
    tokens: int = field(init=False)
    missing: int = field(init=False)
    infer: float = 0.0
    results: Results | None = None

    def __post_init__(self) -> None:
        self.left = np.argsort(-self.work.lengths, kind="stable")
        self.tokens, self.missing = int(self.work.lengths.sum()), len(self.left)

    def take(self, rows: npt.NDArray[np.int64]) -> None:
        self.left = self.left[~np.isin(self.left, rows)]
        self.tokens -= int(self.work.lengths[rows].sum())

    def fill(self, rows: npt.NDArray[np.int64], results: Results, seconds: float) -> None:
        """Keep the results of rows; the last ones complete the job."""
        if self.results is None:
            self.results = np.empty((len(self.work.lengths), *results.shape[1:]), results.dtype)
        self.results[rows] = results
        self.infer += seconds
        self.missing -= len(rows)
        if not self.missing and not self.done.done():
            self.done.set_result(None)


class Waiting:
    """The jobs with texts that wait.

    Every second batch begins with the request that has waited longest, so that each is served; the others
    begin with the one that has least left, so that a short one does not wait for a long one to end. A batch
    begins with the longest text of that request, and is filled with those next in length, of its own and of
    the requests after it, as long as little is padded.
    """

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}  # in the order in which they came
        self._turn = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def tokens(self) -> int:
        return sum(job.tokens for job in self._jobs.values())

    @property
    def oldest(self) -> float | None:
        """When the request that has waited longest came; None if nothing waits."""
        return next((job.began for job in self._jobs.values()), None)

    def add(self, job: Job) -> None:
        self._jobs[id(job)] = job

    def discard(self, job: Job) -> None:
        """Drop what is left of a job, if anything is."""
        self._jobs.pop(id(job), None)

    def take(self, budget: int) -> BatchParts:
        """The next batch, of at most ``budget`` tokens with its padding; a longer text is alone."""
        waiting, jobs, tokens = list(self._jobs.values()), list[Job](), 0
        self._turn += 1
        if not self._turn % 2:
            waiting.sort(key=lambda job: job.tokens)
        # the first job, and those of its lane after it, until they have enough texts to choose from
        for job in waiting:
            if job.work.lane == waiting[0].work.lane and tokens < _NEAR * budget:
                jobs.append(job)
                tokens += job.tokens
        lengths = np.concatenate([job.work.lengths[job.left] for job in jobs])
        rows = np.concatenate([job.left for job in jobs])
        owners = np.repeat(np.arange(len(jobs)), [len(job.left) for job in jobs])
        chosen = _fill(lengths, budget)
        parts = [(job, rows[chosen[owners[chosen] == owner]]) for owner, job in enumerate(jobs)]
        parts = [(job, taken) for job, taken in parts if len(taken)]
        for job, taken in parts:
            job.take(taken)
            if not len(job.left):
                self.discard(job)
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
