"""Pairs of a collection, drawn by a seed: what the analyses of re-rankers look at."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.training.reading import read_texts
from telerank.types import Progress, Ranking, silent

_Names = tuple[str, str]  # qid, docno


@dataclass(frozen=True)
class JudgedPair:
    """A query's text and a passage's, and whether the qrels call the passage relevant.

    An unjudged pair is not relevant; where the split has no qrels at all, nobody knows: None.
    """

    qid: str
    docno: str
    query: str
    passage: str
    relevant: bool | None


@dataclass(frozen=True, eq=False)
class CandidateLists:
    """A collection, one of its splits, and the candidates of the split's queries, from a run or a pool."""

    collection: Collection
    split: str
    rankings: Callable[[], Iterator[Ranking]]


def draw(
    source: CandidateLists, pairs: int, *, seed: int = 0, progress: Progress = silent
) -> list[JudgedPair]:
    """As many of the candidates as asked for, each as likely as any other; all, where there are fewer.

    The rankings are read once, streaming; the documents once, for the texts of what was drawn.

    Raises
    ------
    CollectionError
        where there is no candidate, or the collection lacks the query or the document of one.
    """
    held = _Reservoir(pairs, seed)
    for names in _pairs(source.rankings()):
        held.offer(names)
    judged = source.split in source.collection.qrels
    relevant = _relevant(source, {qid for qid, _ in held.kept}) if judged else None
    return _texts(source, held.kept, relevant, progress)


def draw_by_class(
    source: CandidateLists, *, relevant: int, others: int, seed: int = 0, progress: Progress = silent
) -> list[JudgedPair]:
    """Pairs of the qrels that are relevant, among the candidates or not, then candidates that are not.

    Of both as many as asked for, or all; relevant pairs are those of queries that have candidates.

    Raises
    ------
    CollectionError
        as :func:`draw`, and where no query that has candidates has a relevant document.
    """
    asked = {ranking.query.qid for ranking in source.rankings()}
    known = _relevant(source, asked)
    if not known:
        raise CollectionError(f"{source.collection.name}: no query with candidates has a relevant document")
    good, rest = _Reservoir(relevant, seed), _Reservoir(others, seed)
    for names in sorted(known):
        good.offer(names)
    for names in _pairs(source.rankings()) if others else ():
        if names not in known:
            rest.offer(names)
    return _texts(source, [*good.kept, *rest.kept], known, progress)


@dataclass(eq=False)
class _Reservoir:
    """``size`` of what is offered, each as likely as any other (Vitter's algorithm R)."""

    size: int
    seed: int
    kept: list[_Names] = field(default_factory=list)
    offered: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def offer(self, names: _Names) -> None:
        self.offered += 1
        if len(self.kept) < self.size:
            self.kept.append(names)
        elif (place := self.random.randrange(self.offered)) < self.size:
            self.kept[place] = names


def _pairs(rankings: Iterable[Ranking]) -> Iterator[_Names]:
    for ranking in rankings:
        for docno in ranking.docnos:
            yield ranking.query.qid, docno


def _relevant(source: CandidateLists, qids: set[str]) -> set[_Names]:
    judged = source.collection.judged(source.split)
    return {(qid, docno) for qid in qids for docno, grade in judged.get(qid, {}).items() if grade > 0}


def _texts(
    source: CandidateLists, drawn: list[_Names], relevant: set[_Names] | None, progress: Progress
) -> list[JudgedPair]:
    collection = source.collection
    if not drawn:
        raise CollectionError(f"{collection.name}: no candidates")
    qids, docnos = {qid for qid, _ in drawn}, {docno for _, docno in drawn}
    queries = {one.qid: one.text for one in collection.split_queries(source.split) if one.qid in qids}
    passages = read_texts(collection, docnos, progress)
    for what, wanted, there in (("query", qids, queries), ("document", docnos, passages)):
        if lacking := wanted - there.keys():
            where = f"{collection.name}, split {source.split!r}," if what == "query" else collection.name
            raise CollectionError(f"{where} lacks {what} {min(lacking)!r} of the candidates")
    return [
        JudgedPair(
            qid, docno, queries[qid], passages[docno], None if relevant is None else (qid, docno) in relevant
        )
        for qid, docno in sorted(drawn)
    ]
