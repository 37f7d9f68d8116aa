"""The groups that a re-ranker learns from; the group of each number is a function of the seed.

A group is a document that is relevant to a query, and ``N`` - 1 that are not. All groups of a training have
the same size: a query with fewer negatives has some of them more than once. So every loss is a mean over
groups, and a batch may be cut between groups, for memory or among processes, without changing the gradient.
Because a number decides its group, training resumes anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Scores: TypeAlias = Mapping[str, Mapping[str, float]]
"""A teacher's ``scores[qid][docno]``."""


@dataclass(frozen=True)
class Group:
    """Texts; ``documents[0]`` is the relevant document. ``teacher`` has a score for each, or none."""

    query: str
    documents: tuple[str, ...]
    teacher: tuple[float, ...] = ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(self.query, document) for document in self.documents]


class Groups(Protocol):
    """Group 0, 1, 2 …: one shuffled epoch after another, without end."""

    def __getitem__(self, number: int) -> Group: ...

    def __len__(self) -> int:
        """Number of groups in an epoch; it may have to be counted."""

    @property
    def window(self) -> int:
        """Number of groups that are in memory together; a window begins at each multiple of it."""

    @property
    def repeats_from(self) -> float:
        """Groups from this number on repeat the pairs of earlier ones; infinite if that is not known."""

    @property
    def most_pairs(self) -> float:
        """The most different pairs that all groups together can have; infinite if that is not known."""


@dataclass(frozen=True, eq=False)
class ListedNegatives:
    """For each query, the rows in ``docnos`` of documents that are not relevant to it."""

    docnos: Sequence[str]
    lists: Mapping[str, npt.NDArray[np.int32]]

    @property
    def most_pairs(self) -> float:
        """The most different pairs of query and negative that can be drawn; infinite if that is many."""
        return sum(map(len, self.lists.values()))

    def draw(self, qid: str, count: int, random: np.random.Generator) -> list[str]:
        """Draw ``count`` docnos of the query's list, each once before any is repeated."""
        own = self.lists[qid]
        if count <= len(own):
            chosen = random.choice(len(own), count, replace=False)
        else:
            rounds = [random.permutation(len(own)) for _ in range(-(-count // len(own)))]
            chosen = np.concatenate(rounds)[:count]
        return [self.docnos[row] for row in own[chosen].tolist()]


@dataclass(frozen=True, eq=False)
class RandomNegatives:
    """Every document except the ``relevant`` ones; there must be enough others."""

    docnos: Sequence[str]
    relevant: Mapping[str, frozenset[str]]
    most_pairs: float = math.inf

    def draw(self, qid: str, count: int, random: np.random.Generator) -> list[str]:
        """Draw ``count`` different docnos."""
        relevant, drawn = self.relevant[qid], dict[str, None]()
        while len(drawn) < count:
            docno = self.docnos[int(random.integers(len(self.docnos)))]
            if docno not in relevant:
                drawn[docno] = None
        return list(drawn)


NegativeSource: TypeAlias = ListedNegatives | RandomNegatives


@dataclass(frozen=True, eq=False)
class QrelGroups:
    """A group for each relevant pair (``qid``, ``docno``), with ``negatives`` documents of the source.

    Every epoch has the negatives of the first, unless ``resample`` is set.
    """

    pairs: Sequence[tuple[str, str]]
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    source: NegativeSource
    negatives: int
    seed: int
    resample: bool = False
    teacher: Scores | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def window(self) -> int:
        return len(self.pairs)

    @property
    def repeats_from(self) -> float:
        return math.inf if self.resample else len(self.pairs)

    @property
    def most_pairs(self) -> float:
        return len(self.pairs) + self.source.most_pairs

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        epoch, within = divmod(number, len(self.pairs))
        pair = int(shuffle_numbers(len(self.pairs), self.seed, epoch)[within])
        qid, docnos = self.pairs[pair][0], self.docnos(pair, epoch)
        scores = self.teacher[qid] if self.teacher else {}
        return Group(
            self.queries[qid],
            tuple(self.documents[docno] for docno in docnos),
            tuple(scores[docno] for docno in docnos) if self.teacher else (),
        )

    def docnos(self, pair: int, epoch: int = 0) -> tuple[str, ...]:
        """The documents of a pair's group, the relevant one first."""
        qid, docno = self.pairs[pair]
        random = np.random.default_rng([self.seed, epoch * self.resample, pair + 1])
        return docno, *self.source.draw(qid, self.negatives, random)


@lru_cache(maxsize=2)  # a batch may span two epochs
def shuffle_numbers(total: int, seed: int, *part: int) -> npt.NDArray[np.int64]:
    """The numbers below ``total``, (total,), in an order that the seed and the part decide."""
    return np.random.default_rng([seed, *part]).permutation(total)
