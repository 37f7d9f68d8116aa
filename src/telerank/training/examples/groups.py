"""The groups that a model learns from; the group of each number is a function of the seed.

A group is a document that is relevant to a query, and ``N`` - 1 that are not. All groups of a training have
the same size: a query with fewer negatives has some of them more than once. So every loss of a re-ranker is
a mean over groups, and a batch may be cut between groups, for memory or among processes, without changing the
gradient. Because a number decides its group, training resumes anywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.corpus.readers.by_split import Triple, read_triples
from telerank.errors import CollectionError
from telerank.types import Progress, silent

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

    def draw_position(self, number: int, seed: int) -> tuple[int, int]:
        """The epoch of group ``number``, and which of the epoch's groups it is."""
        if number < 0:
            raise IndexError(number)
        epoch, within = divmod(number, len(self))
        return epoch, int(shuffle_numbers(len(self), seed, epoch)[within])

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
        """The most different pairs of groups that do not repeat; infinite if that is not known."""
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
        epoch, position = self.draw_position(number, self.seed)
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


@dataclass(frozen=True, eq=False)
class LabelledPairs(Groups):
    """A group for each document of each list; texts are read when they are needed.

    ``rows`` is (pairs, 2): the positions of query and document in ``qids`` and ``docnos``. ``relevant`` is
    (pairs,).
    """

    qids: Sequence[str]
    queries: Mapping[str, str]
    docnos: Sequence[str]
    docs: Docstore
    rows: npt.NDArray[np.int32]
    relevant: npt.NDArray[np.bool_]
    seed: int

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Group:
        _, pair = self.draw_position(number, self.seed)
        qid, docno = self.qids[self.rows[pair, 0]], self.docnos[self.rows[pair, 1]]
        try:
            text = self.docs[docno].full_text
        except KeyError as error:
            raise CollectionError(f"the collection has no document {docno!r} of a list of {qid}") from error
        is_relevant = bool(self.relevant[pair])
        return Group(self.queries[qid], (text,), qid=qid, docnos=(docno,), relevant=is_relevant)


@dataclass(eq=False)
class TripleGroups(Groups):
    """The lines of ``path``, each turned into a group by ``group``; with ``accepts`` those that it allows.

    A window of lines is in memory with the one before it, and shuffled by the seed; of small windows, which a
    batch may span, so many that they have ``held`` lines. Groups are best requested in rising order: the file
    is read on from the current position, and from its beginning when an earlier window is requested.
    """

    path: Path
    group: Callable[[Triple], Group]
    accepts: Callable[[Triple], bool] | None
    seed: int
    window: int = 100_000
    encoding: str = "utf-8"
    progress: Progress = silent
    held: int = 4096
    _total: int | None = field(default=None, init=False)
    _window: int = field(default=-1, init=False)  # the number of the window that was read last
    _held: dict[int, list[Triple]] = field(default_factory=dict, init=False)  # the last windows, by number
    _stream: Iterator[Triple] = field(default_factory=lambda: iter(()), init=False)

    def __len__(self) -> int:
        if self._total is None:
            count = 0
            for count, _ in enumerate(self._lines(), 1):
                if count % 1_000_000 == 0:
                    self.progress("counting triples", count, None)
            self._total = self._positive(count)
        return self._total

    @property
    def repeats_from(self) -> float:
        return math.inf if self._total is None else self._total

    def __getitem__(self, number: int) -> Group:
        if number < 0:
            raise IndexError(number)
        if self._total is None:
            self._read(number // self.window)
        epoch, within = divmod(number, self._total) if self._total is not None else (0, number)
        window, offset = divmod(within, self.window)
        lines = self._read(window)
        return self.group(lines[int(shuffle_numbers(len(lines), self.seed, epoch, window)[offset])])

    def _read(self, window: int) -> list[Triple]:
        """The lines of a window; none if the file ends before it, and then its lines are counted."""
        if window in self._held:
            return self._held[window]
        if window < self._window or self._window < 0:
            self._window, self._stream = -1, self._lines()
        while self._window < window:
            lines = list(islice(self._stream, self.window))
            if len(lines) < self.window and self._total is None:
                self._total = self._positive((self._window + 1) * self.window + len(lines))
            if not lines:
                self._window = -1  # the stream is at its end: the next window is read from the beginning
                return lines
            self._window += 1
            self._held.pop(self._window, None)  # so that it becomes the newest
            self._held[self._window] = lines
            if len(self._held) > max(2, -(-self.held // self.window)):
                del self._held[next(iter(self._held))]
        return self._held[window]

    def _lines(self) -> Iterator[Triple]:
        lines = read_triples(self.path, self.encoding)
        return lines if self.accepts is None else filter(self.accepts, lines)

    def _positive(self, count: int) -> int:
        if not count:
            raise CollectionError(f"{self.path}: no triple to learn from")
        return count


@lru_cache(maxsize=2)  # a batch may span two epochs
def shuffle_numbers(total: int, seed: int, *part: int) -> npt.NDArray[np.int64]:
    """The numbers below ``total``, (total,), in an order that the seed and the part decide."""
    return np.random.default_rng([seed, *part]).permutation(total)
