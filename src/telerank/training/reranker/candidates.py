"""The queries of dev and test with their candidates, and the groups that the dev loss is a mean over."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from telerank.corpus.collection import Collection, split_parts
from telerank.corpus.derived.questions import shuffle
from telerank.errors import CollectionError
from telerank.evaluation.measures import measure
from telerank.reranking.texts import TextPair
from telerank.training.examples.groups import Group, ListedNegatives, QrelGroups, Scores
from telerank.training.examples.reading import (
    Reading,
    candidate_lists,
    check_complete,
    choose_queries,
    read_texts,
)
from telerank.training.reranker.config import CandidateSettings, RerankerDev, RerankerTest, RerankerTraining
from telerank.training.settings import NegativeSettings
from telerank.types import Progress, Qrels, Query, Ranking, silent

FIXED_SEED = 0
"""Queries of dev and test, the groups of the dev loss, and folds are the same in every training."""


@dataclass(frozen=True)
class QueryParts:
    """The queries of dev and of test; ``kept_back`` are those that belong to the training split."""

    dev: frozenset[str] = frozenset()
    test: frozenset[str] = frozenset()
    kept_back: frozenset[str] = frozenset()


def assign_queries(collection: Collection, config: RerankerTraining) -> QueryParts:
    """Choose the queries of dev and test; if both are of one split, those of the test are chosen first.

    Raises CollectionError if dev or test is left without a judged query.
    """
    training_split, dev, test = config.data.split, config.dev, config.test
    test_qids: frozenset[str] = frozenset()
    if test is not None:
        if config.folds is not None and config.held_out is not None:
            seed = FIXED_SEED + (config.repetition or 0)
            folds = make_folds(choose_judged(collection, test), config.folds, seed)
            test_qids = frozenset(folds[config.held_out])
        else:
            test_qids = frozenset(choose_judged(collection, test, _unlisted(collection, test)))
    dev_qids: frozenset[str] = frozenset()
    if dev is not None:
        excluded = test_qids if test is not None and test.split == dev.split else frozenset[str]()
        dev_qids = frozenset(choose_judged(collection, dev, excluded))
    parts = ((dev, dev_qids), (test, test_qids))
    learned = set(split_parts(training_split))
    kept_back = (qids for part, qids in parts if part is not None and learned & set(split_parts(part.split)))
    return QueryParts(dev_qids, test_qids, frozenset().union(*kept_back))


def choose_judged(
    collection: Collection, settings: CandidateSettings, excluded: Container[str] = ()
) -> list[str]:
    """The queries of a split that have judgments, or as many of them as the settings allow.

    Raises CollectionError if there is none.
    """
    judged = collection.judged(settings.split)
    qids = choose_queries([qid for qid in judged if qid not in excluded], settings.queries, FIXED_SEED)
    if not qids:
        raise CollectionError(f"{collection.name}: split {settings.split!r} has no judged query left")
    return qids


def make_folds(qids: Container[str], count: int, seed: int) -> list[list[str]]:
    """The queries in ``count`` folds whose sizes differ by at most one; their input order does not matter.

    Raises CollectionError if there are fewer queries than folds.
    """
    if len(qids) < count:
        raise CollectionError(f"{len(qids)} queries cannot be cut into {count} folds")
    order = shuffle(qids, str, seed=seed)
    return [order[first::count] for first in range(count)]


def _unlisted(collection: Collection, test: RerankerTest) -> frozenset[str]:
    """The queries without candidates, if only those with candidates are measured."""
    if not test.listed:
        return frozenset()
    lists = candidate_lists(collection, test.split, run=test.run, pool=test.pool)
    return frozenset(collection.judged(test.split)) - {one.query.qid for one in lists if len(one)}


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """A first stage's rankings, the texts of their documents, and the qrels of all queries that count."""

    rankings: tuple[Ranking, ...]
    documents: Mapping[str, str]
    qrels: Qrels

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The texts of all pairs of query and candidate, ranking by ranking."""
        return [
            (ranking.query.text, self.documents[docno])
            for ranking in self.rankings
            for docno in ranking.docnos
        ]

    def rerank(self, scores: Iterable[float]) -> list[Ranking]:
        """The rankings by new scores, one for each of :attr:`pairs`."""
        stream = iter(scores)
        return [
            Ranking.ranked(ranking.query, ranking.docnos, [next(stream) for _ in ranking.docnos])
            for ranking in self.rankings
        ]

    def measure(self, scores: Mapping[tuple[str, str], float], name: str) -> float:
        """A measure's mean over the queries, of the rankings by the scores of :attr:`pairs`."""
        rankings = self.rerank(scores[pair] for pair in self.pairs)
        (value,) = measure(rankings, self.qrels, name).mean.values()
        return value


NO_CANDIDATES = CandidateSet((), {}, {})
"""What processes have that are not the first."""


def read_candidates(
    collection: Collection,
    settings: CandidateSettings,
    qids: Container[str],
    progress: Progress = silent,
    *,
    with_relevant: bool = False,
) -> CandidateSet:
    """The first documents of these queries' lists; ``with_relevant`` also the texts of relevant documents.

    Raises CollectionError if none of them has a list, or the collection lacks a query or document of a list.
    """
    grades = collection.judged(settings.split)
    queries = {query.qid: query.text for query in collection.split_queries(settings.split)}
    kept = frozenset(qids)
    check_complete(kept, queries, f"{collection.name}: split {settings.split!r} has no query")
    rankings = []
    for ranking in candidate_lists(collection, settings.split, run=settings.run, pool=settings.pool):
        qid = ranking.query.qid
        if qid in kept and len(ranking):
            rankings.append(replace(ranking.cut(settings.depth), query=Query(qid, queries[qid])))
    if not rankings:
        raise CollectionError(
            f"{collection.name}: no judged query of split {settings.split!r} has candidates"
        )
    needed = {docno for ranking in rankings for docno in ranking.docnos}
    qrels = {qid: grades[qid] for qid in grades if qid in kept}
    judged = (grade for grade in qrels.values() if with_relevant)
    relevant = {docno for own in judged for docno, grade in own.items() if grade > 0}
    documents = read_texts(collection, needed | relevant, progress)
    check_complete(needed, documents, f"{collection.name} has no document")
    return CandidateSet(tuple(rankings), documents, qrels)


@dataclass(frozen=True, eq=False)
class RerankerDevSet:
    """``pairs`` are those that are scored: of ``groups``, and of ``candidates`` if they are measured."""

    candidates: CandidateSet
    groups: Sequence[Group]
    pairs: Sequence[TextPair]


NO_DEV = RerankerDevSet(NO_CANDIDATES, (), ())
"""What processes have that are not the first, which shares out its pairs."""


def read_dev_set(reading: Reading, settings: RerankerDev, qids: Container[str]) -> RerankerDevSet:
    """The candidates of the dev queries ``qids``, and the groups of the dev loss.

    A query without a relevant or without another document is left out of the dev loss, and counted in
    ``reading.counts``. Raises CollectionError if no query has candidates, or a text is missing.
    """
    candidates = read_candidates(reading.collection, settings, qids, reading.progress, with_relevant=True)
    drawn = _dev_groups(candidates, reading.data.negatives, reading.teacher(qids))
    groups = [drawn[number] for number in range(len(drawn))]
    left_out = "dev queries without a relevant or without another document, left out of the dev loss"
    reading.counts[left_out] = len(qids) - len({qid for qid, _ in drawn.pairs})
    measured = [] if settings.by_loss else candidates.pairs
    pairs = dict.fromkeys([*measured, *(pair for group in groups for pair in group.pairs)])
    return RerankerDevSet(candidates, groups, list(pairs))


def _dev_groups(
    candidates: CandidateSet, negatives: NegativeSettings | None, teacher: Scores | None
) -> QrelGroups:
    relevant: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for ranking in candidates.rankings:
        qid = ranking.query.qid
        grades, scored = candidates.qrels[qid], None if teacher is None else teacher.get(qid, {})
        relevant[qid] = _known([docno for docno in grades if grades[docno] > 0], candidates.documents, scored)
        allowed = [
            docno
            for docno in ranking.docnos
            if grades.get(docno, 0) <= 0 and (negatives is None or negatives.allows(grades.get(docno)))
        ]
        others[qid] = _known(allowed, candidates.documents, scored)
    rows: dict[str, int] = {}
    lists = {
        qid: np.array([rows.setdefault(docno, len(rows)) for docno in own], np.int32)
        for qid, own in others.items()
        if own
    }
    return QrelGroups(
        [(qid, docno) for qid in lists for docno in relevant[qid]],
        {ranking.query.qid: ranking.query.text for ranking in candidates.rankings},
        candidates.documents,
        ListedNegatives(list(rows), lists),
        negatives=negatives.per_positive if negatives else 1,
        seed=FIXED_SEED,
        teacher=teacher,
        per_group=negatives.per_group if negatives else None,
    )


def _known(
    docnos: Sequence[str], documents: Mapping[str, str], scored: Mapping[str, float] | None
) -> list[str]:
    """The documents that have a text, and a teacher's score if there is a teacher."""
    return [docno for docno in docnos if docno in documents and (scored is None or docno in scored)]
