"""Groups to batches: the group of each number is a function of the seed, so that training resumes anywhere.

A group is one document that is relevant to a query, and ``N`` - 1 that are not. All groups of a training
have as many: a query with fewer negatives has some of them more than once. So every loss is a mean over
groups, and a batch may be cut between groups, for memory or among processes, without another gradient.
"""

from __future__ import annotations

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
    """Texts; ``documents[0]`` is the relevant one. ``teacher`` has one score for each, or none."""

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
        """Groups of an epoch; it may have to be counted."""

    @property
    def stretch(self) -> int:
        """So many groups, from a multiple of it on, are at hand together."""


class GroupSource(Protocol):
    """What is not relevant to a query."""

    def drawn(self, qid: str, count: int, random: np.random.Generator) -> list[str]:
        """So many docnos."""


@dataclass(frozen=True, eq=False)
class Listed:
    """For each query the places, in ``docnos``, of documents that are not relevant to it."""

    docnos: Sequence[str]
    lists: Mapping[str, npt.NDArray[np.int32]]

    def drawn(self, qid: str, count: int, random: np.random.Generator) -> list[str]:
        """Each once before any comes again."""
        found = self.lists[qid]
        if count <= len(found):
            places = random.choice(len(found), count, replace=False)
        else:
            rounds = [random.permutation(len(found)) for _ in range(-(-count // len(found)))]
            places = np.concatenate(rounds)[:count]
        return [self.docnos[place] for place in found[places].tolist()]


@dataclass(frozen=True, eq=False)
class Anything:
    """Every document but those in ``relevant``, of which there must be enough."""

    docnos: Sequence[str]
    relevant: Mapping[str, frozenset[str]]

    def drawn(self, qid: str, count: int, random: np.random.Generator) -> list[str]:
        """Each at most once."""
        own, drawn = self.relevant[qid], dict[str, None]()
        while len(drawn) < count:
            docno = self.docnos[int(random.integers(len(self.docnos)))]
            if docno not in own:
                drawn[docno] = None
        return list(drawn)


@dataclass(frozen=True, eq=False)
class QrelGroups:
    """A group for each relevant pair (``qid``, ``docno``), with ``negatives`` of what the source draws.

    They are those of the first epoch in every later one, unless ``resample``.
    """

    pairs: Sequence[tuple[str, str]]
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    source: GroupSource
    negatives: int
    seed: int
    resample: bool = False
    teacher: Scores | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def stretch(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        epoch, within = divmod(number, len(self.pairs))
        pair = int(shuffled(len(self.pairs), self.seed, epoch)[within])
        qid, docnos = self.pairs[pair][0], self.docnos(pair, epoch)
        told = self.teacher[qid] if self.teacher else {}
        return Group(
            self.queries[qid],
            tuple(self.documents[one] for one in docnos),
            tuple(told[one] for one in docnos) if self.teacher else (),
        )

    def docnos(self, pair: int, epoch: int = 0) -> tuple[str, ...]:
        """The documents of a pair's group, the relevant one first."""
        qid, docno = self.pairs[pair]
        random = np.random.default_rng([self.seed, epoch * self.resample, pair + 1])
        return docno, *self.source.drawn(qid, self.negatives, random)


@lru_cache(maxsize=2)  # a batch may lie across the border of two epochs
def shuffled(total: int, seed: int, *part: int) -> npt.NDArray[np.int64]:
    """The numbers below ``total`` in an order that seed and part decide."""
    return np.random.default_rng([seed, *part]).permutation(total)
