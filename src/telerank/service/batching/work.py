"""What a request asks of a model, its tokens, and the reply: the types of batching."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Request_contra = TypeVar("Request_contra", contravariant=True)
Content = TypeVar("Content")

Results: TypeAlias = npt.NDArray[Any]
"""What a model computes, a row for each text: scores (n,) or vectors (n, D)."""


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


@dataclass(frozen=True)
class Timings:
    """The seconds of a request: waiting, being tokenised, and in batches that are computed."""

    queue: float
    tokenise: float
    infer: float

    @property
    def total(self) -> float:
        return self.queue + self.tokenise + self.infer


@dataclass(frozen=True, eq=False)
class BatchedReply:
    """The results of a request in the order of its texts; which of them were cut; their tokens."""

    results: Results
    lengths: npt.NDArray[np.int64]
    cut: npt.NDArray[np.bool_]
    timings: Timings

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


class BatchObserver(Protocol):
    """Is told what happens, for metrics; all of it on the event loop."""

    def replied(self, model: str, reply: BatchedReply) -> None:
        """A request was answered."""

    def computed(self, model: str, lengths: npt.NDArray[np.int64]) -> None:
        """A batch of texts of these lengths was computed."""

    def dropped(self, model: str, reason: str) -> None:
        """A request was not answered: ``full``, ``late``, ``left`` by its client, ``cut``, or ``failed``."""


class SilentObserver:
    """Observes nothing."""

    def replied(self, model: str, reply: BatchedReply) -> None:
        pass

    def computed(self, model: str, lengths: npt.NDArray[np.int64]) -> None:
        pass

    def dropped(self, model: str, reason: str) -> None:
        pass
