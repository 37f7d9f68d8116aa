"""What a bi-encoder learns from: relevant pairs, and documents that are hard to tell from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError
from telerank.training.reading import check_complete, read_texts
from telerank.types import Progress, Ranking, silent


@dataclass(frozen=True, eq=False)
class Examples:
    """``pairs`` are ``(qid, docno)``; no texts are held but those that are needed.

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
    """The pairs of a split in the order of its qrels, and the first ``depth`` of a run as negatives.

    Queries ``kept_back`` are not learned from.

    Raises
    ------
    CollectionError
        where the split has no relevant pair or all are kept back, the qrels name a query or document that the
        collection lacks, or the run has none of the queries or a document that the collection lacks.
    """
    grades = [one for one in collection.split_qrels(split) if one.grade >= collection.relevant_from]
    every = dict.fromkeys((one.qid, one.docno) for one in grades)
    pairs = tuple(one for one in every if one[0] not in kept_back)
    if not pairs:
        says = f"{collection.name}: split {split!r} has no relevant pair to learn from"
        raise CollectionError(f"{says}: dev has all of its queries" if every else says)
    relevant: dict[str, set[str]] = {}
    for qid, docno in pairs:
        relevant.setdefault(qid, set()).add(docno)
    known = {qid: frozenset(docnos) for qid, docnos in relevant.items()}
    queries = {one.qid: one.text for one in collection.split_queries(split) if one.qid in known}
    check_complete(known, queries, f"{collection.name}: split {split!r} has no query", "that its qrels name")
    negatives = hard_negatives(run, known, depth)
    wanted = {docno for _, docno in pairs}.union(*negatives.values())
    documents = read_texts(collection, wanted, progress)
    check_complete(wanted, documents, f"{collection.name} has no document", "that qrels or negatives name")
    return Examples(pairs, queries, documents, known, negatives)


def hard_negatives(
    run: Iterable[Ranking], relevant: Mapping[str, frozenset[str]], depth: int
) -> dict[str, tuple[str, ...]]:
    """For each query of ``relevant``, those of its first ``depth`` that are not relevant.

    Raises
    ------
    CollectionError
        where there is a run, but none of its queries is among these.
    """
    found, rankings = {}, 0
    for ranking in run:
        rankings += 1
        if own := relevant.get(ranking.query.qid):
            left = tuple(docno for docno in ranking.docnos[:depth] if docno not in own)
            if left:
                found[ranking.query.qid] = left
    if rankings and not found:
        raise CollectionError("no query of the training split has a negative in the run")
    return found
