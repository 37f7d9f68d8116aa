"""Lists that a re-ranker orders anew, for dev and for test, with all that measuring needs."""

from __future__ import annotations

from collections.abc import Collection as Several
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.evaluate.measures import Evaluation, measure
from telerank.training.bi_encoder.examples import texts_of
from telerank.training.reranker.config import CandidateSettings
from telerank.training.reranker.reading import all_there, candidate_lists, chosen
from telerank.types import Progress, Qrels, Query, Ranking, silent

SAME = 0
"""The seed of choices that are the same in every training."""


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """First stage's rankings, the texts of their documents, and the qrels of all queries that count."""

    rankings: tuple[Ranking, ...]
    documents: Mapping[str, str]
    qrels: Qrels

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The texts of all pairs, in their order."""
        return [(one.query.text, self.documents[docno]) for one in self.rankings for docno in one.docnos]

    def ranked(self, scores: Iterable[float]) -> list[Ranking]:
        """The rankings by new scores, one for each of :attr:`pairs`."""
        stream = iter(scores)
        return [
            Ranking.ranked(one.query, one.docnos, [next(stream) for _ in one.docnos]) for one in self.rankings
        ]

    def measured(self, rankings: Iterable[Ranking], measures: str | Several[str]) -> Evaluation:
        """A query without candidates counts as one without results."""
        names = measures if isinstance(measures, str) else list(measures)
        return measure(rankings, self.qrels, names)


def judged_queries(
    collection: Collection, wanted: CandidateSettings, without: Several[str] = ()
) -> list[str]:
    """The queries of a split that have judgments, or as many of them as are asked for.

    Raises
    ------
    CollectionError
        where there is none.
    """
    judged = collection.judged(wanted.split)
    found = chosen([qid for qid in judged if qid not in without], wanted.queries, SAME)
    if not found:
        raise CollectionError(f"{collection.name}: split {wanted.split!r} has no judged query left")
    return found


def read_candidates(
    collection: Collection, wanted: CandidateSettings, qids: Several[str], progress: Progress = silent
) -> CandidateSet:
    """The first documents of these queries' lists.

    Raises
    ------
    CollectionError
        where none of them has a list, or the collection lacks what a list names.
    """
    grades = collection.judged(wanted.split)
    queries = {one.qid: one.text for one in collection.split_queries(wanted.split)}
    asked = frozenset(qids)
    all_there(asked, queries, f"{collection.name}: split {wanted.split!r} has no query")
    rankings = []
    for ranking in candidate_lists(collection, wanted.split, run=wanted.run, pool=wanted.pool):
        qid = ranking.query.qid
        if qid in asked and len(ranking):
            rankings.append(replace(ranking.cut(wanted.depth), query=Query(qid, queries[qid])))
    if not rankings:
        raise CollectionError(f"{collection.name}: no judged query of split {wanted.split!r} has candidates")
    needed = {docno for one in rankings for docno in one.docnos}
    documents = texts_of(collection, needed, progress)
    all_there(needed, documents, f"{collection.name} has no document")
    return CandidateSet(tuple(rankings), documents, {qid: grades[qid] for qid in grades if qid in asked})
