"""Read what a bi-encoder learns from: relevant pairs, and hard negatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.training.reading import check_complete, read_texts
from telerank.types import Progress, Ranking, silent


@dataclass(frozen=True, eq=False)
class Examples:
    """``pairs`` are ``(qid, docno)``; only the texts that are needed are in memory.

    ``relevant`` has all documents that the qrels call relevant, ``negatives`` others, best first.
    """

    pairs: tuple[tuple[str, str], ...]
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    relevant: Mapping[str, frozenset[str]]
    negatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_examples(
    collection: Collection,
    split: str,
    run: Iterable[Ranking] = (),
    *,
    depth: int = 1000,
    kept_back: frozenset[str] = frozenset(),
    progress: Progress = silent,
) -> Examples:
    """The pairs of a split in the order of its qrels, and negatives from the first ``depth`` of a run.

    Queries that are ``kept_back`` are not learned from. Raises CollectionError if the split has no relevant
    pair or all are kept back, the qrels name a query or document that the collection lacks, or the run has
    none of the queries or a document that the collection lacks.
    """
    qrels = [qrel for qrel in collection.split_qrels(split) if qrel.grade >= collection.relevant_from]
    every = dict.fromkeys((qrel.qid, qrel.docno) for qrel in qrels)
    pairs = tuple((qid, docno) for qid, docno in every if qid not in kept_back)
    if not pairs:
        problem = f"{collection.name}: split {split!r} has no relevant pair to learn from"
        raise CollectionError(f"{problem}: dev has all of its queries" if every else problem)
    relevant: dict[str, set[str]] = {}
    for qid, docno in pairs:
        relevant.setdefault(qid, set()).add(docno)
    known = {qid: frozenset(docnos) for qid, docnos in relevant.items()}
    queries = {query.qid: query.text for query in collection.split_queries(split) if query.qid in known}
    check_complete(known, queries, f"{collection.name}: split {split!r} has no query", "that its qrels name")
    negatives = hard_negatives(run, known, depth)
    needed = {docno for _, docno in pairs}.union(*negatives.values())
    documents = read_texts(collection, needed, progress)
    check_complete(needed, documents, f"{collection.name} has no document", "that qrels or negatives name")
    return Examples(pairs, queries, documents, known, negatives)


def hard_negatives(
    run: Iterable[Ranking], relevant: Mapping[str, frozenset[str]], depth: int
) -> dict[str, tuple[str, ...]]:
    """For each query of ``relevant``, the first ``depth`` documents of the run without the relevant ones.

    Raises CollectionError if the run has rankings, but none for these queries.
    """
    negatives, rankings = {}, 0
    for ranking in run:
        rankings += 1
        if own := relevant.get(ranking.query.qid):
            others = tuple(docno for docno in ranking.docnos[:depth] if docno not in own)
            if others:
                negatives[ranking.query.qid] = others
    if rankings and not negatives:
        raise CollectionError("no query of the training split has a negative in the run")
    return negatives
