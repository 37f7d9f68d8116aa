"""The groups that a model learns from; the group of each number is a function of the seed.

A group is a document that is relevant to a query, and ``N`` - 1 that are not. All groups of a training have
the same size: a query with fewer negatives has some of them more than once. So every loss of a re-ranker is
a mean over groups, and a batch may be cut between groups, for memory or among processes, without changing the
gradient. Because a number decides its group, training resumes anywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.errors import CollectionError

Scores: TypeAlias = Mapping[str, Mapping[str, float]]
"""A teacher's ``scores[qid][docno]``."""


@dataclass(frozen=True)
class Group:
    """Texts; ``documents[0]`` is the relevant document. ``teacher`` has a score for each, or none.

    ``qid`` and ``docnos`` are their ids, or the texts themselves if they have no others. ``counts_relevant``
    is set in the first of the groups that share a relevant document and its query.
    """

    query: str
    documents: tuple[str, ...]
    teacher: tuple[float, ...] = ()
    qid: str = ""
    docnos: tuple[str, ...] = ()
    counts_relevant: bool = True
    relevant: bool = True
    """Whether the first document is relevant; one that stands alone may not be."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(self.query, document) for document in self.documents]

    @property
    def counted_pairs(self) -> list[tuple[str, str]]:
        """The pairs without the relevant one if another group counts it."""
        return self.pairs if self.counts_relevant else self.pairs[1:]


class Groups(ABC):
    """Group 0, 1, 2 …: one shuffled epoch after another, without end."""

    @abstractmethod
    def __getitem__(self, number: int) -> Group: ...

    @abstractmethod
    def __len__(self) -> int:
        """Number of groups in an epoch; it may have to be counted."""

    @property
    def window(self) -> int:
        """Number of groups that are in memory together; a window begins at each multiple of it."""
        return len(self)

    @property
    def repeats_from(self) -> float:
        """Groups from this number on repeat the pairs of earlier ones; infinite if that is not known."""
        return len(self)

    @property
    def most_pairs(self) -> float:
        """The most different pairs that all groups together can have; infinite if that is not known."""
        return math.inf


@dataclass(frozen=True, eq=False)
class ListedNegatives:
    """For each query, the rows in ``docnos`` of documents that are not relevant to it."""

    docnos: Sequence[str]
    lists: Mapping[str, npt.NDArray[np.int32]]

    @property
    def most_pairs(self) -> float:
        """The most different pairs of query and negative that can be drawn; infinite if that is many."""
        return sum(map(len, self.lists.values()))

    def draw(self, pair: tuple[str, str], count: int, random: np.random.Generator) -> list[str]:
        """Draw ``count`` docnos of the query's list, each once before any is repeated."""
        own = self.lists[pair[0]]
        return [self.docnos[row] for row in own[_draw_rows(len(own), count, random)].tolist()]


@dataclass(frozen=True, eq=False)
class LowerGrades:
    """The judged documents of each query, ``grades[qid][docno]``: those below a pair's are its negatives."""

    grades: Mapping[str, Mapping[str, int]]

    @property
    def docnos(self) -> Iterable[str]:
        """All documents that can be drawn."""
        return (docno for own in self.grades.values() for docno in own)

    @property
    def most_pairs(self) -> float:
        """As of :class:`ListedNegatives`."""
        return sum(map(len, self.grades.values()))

    def draw(self, pair: tuple[str, str], count: int, random: np.random.Generator) -> list[str]:
        """Draw ``count`` docnos that are judged below the pair's, each once before any is repeated."""
        own = self.grades[pair[0]]
        lower = [docno for docno, grade in own.items() if grade < own[pair[1]]]
        return [lower[row] for row in _draw_rows(len(lower), count, random).tolist()]


@dataclass(frozen=True, eq=False)
class RandomNegatives:
    """Every document except the ``relevant`` ones; there must be enough others."""

    docnos: Sequence[str]
    relevant: Mapping[str, frozenset[str]]
    most_pairs: float = math.inf

    def draw(self, pair: tuple[str, str], count: int, random: np.random.Generator) -> list[str]:
        """Draw ``count`` different docnos."""
        relevant, drawn = self.relevant[pair[0]], dict[str, None]()
        while len(drawn) < count:
            docno = self.docnos[int(random.integers(len(self.docnos)))]
            if docno not in relevant:
                drawn[docno] = None
        return list(drawn)


NegativeSource: TypeAlias = ListedNegatives | LowerGrades | RandomNegatives


@dataclass(frozen=True, eq=False)
class QrelGroups(Groups):
    """Groups of each relevant pair (``qid``, ``docno``), with ``negatives`` documents of the source in all.

    ``per_group`` of them are in a group, which divides ``negatives``; by default the pair has one group. With
    0 ``negatives`` the source is not used. Every epoch has the negatives of the first, unless ``resample`` is
    set.
    """

    pairs: Sequence[tuple[str, str]]
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    source: NegativeSource
    negatives: int
    seed: int
    resample: bool = False
    teacher: Scores | None = None
    per_group: int | None = None

    def __len__(self) -> int:
        return len(self.pairs) * self.parts

    @property
    def parts(self) -> int:
        """Number of groups of a pair."""
        return self.negatives // self.per_group if self.per_group else 1

    @property
    def repeats_from(self) -> float:
        return math.inf if self.resample else len(self)

    @property
    def most_pairs(self) -> float:
        return len(self.pairs) + self.source.most_pairs

    def __getitem__(self, number: int) -> Group:
        epoch, position = draw_position(number, len(self), self.seed)
        pair, part = divmod(position, self.parts)
        qid, (relevant, *others) = self.pairs[pair][0], self.docnos(pair, epoch)
        size = self.negatives // self.parts
        docnos = (relevant, *others[part * size : (part + 1) * size])
        scores = self.teacher[qid] if self.teacher else {}
        return Group(
            self.queries[qid],
            tuple(self.documents[docno] for docno in docnos),
            tuple(scores[docno] for docno in docnos) if self.teacher else (),
            qid,
            docnos,
            counts_relevant=part == 0,
        )

    def docnos(self, pair: int, epoch: int = 0) -> tuple[str, ...]:
        """The documents of a pair's groups, the relevant one first."""
        qid, docno = self.pairs[pair]
        if not self.negatives:
            return (docno,)
        random = np.random.default_rng([self.seed, epoch * self.resample, pair + 1])
        return docno, *self.source.draw((qid, docno), self.negatives, random)


def _draw_rows(total: int, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw ``count`` of the numbers below ``total``, each once before any is repeated."""
    if count <= total:
        return random.choice(total, count, replace=False)
    rounds = [random.permutation(total) for _ in range(-(-count // total))]
    return np.concatenate(rounds)[:count]


@dataclass(frozen=True, eq=False)
class FirstGroups(Groups):
    """The first ``count`` of other groups, epoch after epoch, shuffled in each of their windows."""

    groups: Groups
    count: int
    seed: int

    def __len__(self) -> int:
        return self.count

    @property
    def window(self) -> int:
        return min(self.groups.window, self.count)

    @property
    def most_pairs(self) -> float:
        return self.groups.most_pairs

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        epoch, within = divmod(number, self.count)
        window, offset = divmod(within, self.window)
        first = window * self.window
        order = shuffle_numbers(min(self.window, self.count - first), self.seed, epoch, window)
        position = first + int(order[offset])
        group = self.groups[position]
        if position >= self.groups.repeats_from:
            raise CollectionError(f"there are only {self.groups.repeats_from:,} groups, not {self.count:,}")
        return group


@lru_cache(maxsize=2)  # a batch may span two epochs
def shuffle_numbers(total: int, seed: int, *part: int) -> npt.NDArray[np.int64]:
    """The numbers below ``total``, (total,), in an order that the seed and the part decide."""
    return np.random.default_rng([seed, *part]).permutation(total)


def draw_position(number: int, total: int, seed: int) -> tuple[int, int]:
    """The epoch of group ``number``, and which of the epoch's ``total`` groups it is."""
    if number < 0:
        raise IndexError(number)
    epoch, within = divmod(number, total)
    return epoch, int(shuffle_numbers(total, seed, epoch)[within])
