"""A collection: documents, queries, qrels and whatever else one source ships; and how it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from telerank.errors import CollectionError
from telerank.trec import load_qrels
from telerank.types import Answer, Doc, Qrel, Qrels, Query, Ranking

Record = TypeVar("Record")
Docs: TypeAlias = Callable[[], Iterator[Doc]]
Queries: TypeAlias = Callable[[], Iterator[Query]]
QrelStream: TypeAlias = Callable[[], Iterator[Qrel]]
Answers: TypeAlias = Callable[[], Iterator[Answer]]
Pool: TypeAlias = Callable[[], Iterator[Ranking]]


@dataclass(frozen=True, eq=False)
class Collection:
    """Streams of records: each call of a member begins again at the first record.

    ``docs``, and by the name of a split ``queries``, ``qrels`` and ``answers``. ``pools`` are the
    candidate lists that a collection ships, by ``split/name`` (``test/500``, ``dev.small/top1000``);
    their scores fall by one from place to place, so that the order of the file stands. ``size`` is the
    number of documents where it is known without reading them all. ``relevant_from`` is the least grade
    that the collection's makers count as relevant (3 of 4 in ANTIQUE). ``notes``
    counts what the reader met and put right, by name: paragraphs merged, answers moved.
    """

    name: str
    format: str
    docs: Docs
    queries: Mapping[str, Queries] = field(default_factory=dict)
    qrels: Mapping[str, QrelStream] = field(default_factory=dict)
    answers: Mapping[str, Answers] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    size: int | None = None
    licence: str = ""
    source: str = ""
    relevant_from: int = 1
    notes: Callable[[], Mapping[str, int]] = dict

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of all splits, in the order in which the collection gives them."""
        pooled = (name.partition("/")[0] for name in self.pools)
        return tuple(dict.fromkeys((*self.queries, *self.qrels, *self.answers, *pooled)))

    def split(self, name: str | None = None) -> str:
        """``name`` if there is such a split; without a name, the only split there is.

        Raises
        ------
        CollectionError
            If there is no such split, or none is named and there are several.
        """
        known = ", ".join(self.splits)
        if name is None:
            if len(self.splits) == 1:
                return self.splits[0]
            if not self.splits:
                raise CollectionError(f"{self.name} has documents alone: no queries, no qrels")
            raise CollectionError(f"{self.name} has several splits, name one of them: {known}")
        if name not in self.splits:
            raise CollectionError(f"{self.name} has no split {name!r}; it has: {known or 'none'}")
        return name

    def split_queries(self, name: str | None = None) -> Iterator[Query]:
        """The queries of a split (see :meth:`split`)."""
        return _member(self, "queries", self.queries, self.split(name))()

    def split_qrels(self, name: str | None = None) -> Iterator[Qrel]:
        """The qrels of a split (see :meth:`split`)."""
        return _member(self, "qrels", self.qrels, self.split(name))()

    def judged(self, name: str | None = None) -> Qrels:
        """The grades of a split to measure with: ``qid -> docno -> grade``.

        A grade that the makers do not count as relevant (below :attr:`relevant_from`) is 0 here, so that
        measures need no ``rel``: they take any grade above 0 for relevant.

        Raises
        ------
        CollectionError
            If there is no such split (see :meth:`split`), or it has no qrels.
        FormatError
            If a document has two grades for a query.
        """
        qrels = load_qrels(self.split_qrels(name))
        for grades in qrels.values() if self.relevant_from > 1 else ():
            grades.update({docno: 0 for docno, grade in grades.items() if 0 < grade < self.relevant_from})
        return qrels

    def split_answers(self, name: str | None = None) -> Iterator[Answer]:
        """The answer spans of a split (see :meth:`split`)."""
        return _member(self, "answers", self.answers, self.split(name))()


@dataclass(frozen=True)
class Format:
    """A way to lay out a collection in files.

    ``recognises`` looks at names and at the beginning of files, never at all of them. ``open`` is
    given the place and the encoding of its texts (``utf-8`` unless the user names another).
    """

    name: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path, str], Collection]
    description: str


def _member(
    collection: Collection, what: str, members: Mapping[str, Callable[[], Iterator[Record]]], split: str
) -> Callable[[], Iterator[Record]]:
    if split not in members:
        has = ", ".join(members) or "none"
        raise CollectionError(f"{collection.name}: split {split!r} has no {what}; splits with {what}: {has}")
    return members[split]
