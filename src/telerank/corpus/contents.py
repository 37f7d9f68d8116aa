"""What a collection contains: its counts, and documents and queries by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from telerank.corpus.collection import Collection
from telerank.corpus.reading import Stream
from telerank.errors import CollectionError
from telerank.types import Answer, Doc, Progress, Query, silent


@dataclass(frozen=True)
class CollectionContents:
    """The counts of a collection; ``splits[split]`` has those of its queries, qrels and answers."""

    name: str
    format: str
    licence: str
    source: str
    documents: int
    splits: Mapping[str, Mapping[str, int]]
    pools: Sequence[str]
    notes: Mapping[str, int]
    unread: Sequence[str]


@dataclass(frozen=True)
class JudgedQuery:
    """A query of a split, with the grades and answers that the collection has for it."""

    split: str
    query: Query
    grades: Mapping[str, int]
    answers: tuple[Answer, ...]


def count_contents(collection: Collection, *, progress: Progress = silent) -> CollectionContents:
    """Count the records of a collection; reads the documents only if their number is not known."""
    documents = collection.size
    if documents is None:
        documents = sum(1 for _ in collection.read_docs("counting documents", progress))
    streams: dict[str, Mapping[str, Stream[Any]]] = {
        "queries": collection.queries,
        "qrels": collection.qrels,
        "answers": collection.answers,
    }
    splits = {
        split: {kind: sum(1 for _ in own[split]()) for kind, own in streams.items() if split in own}
        for split in collection.splits
    }
    return CollectionContents(
        collection.name,
        collection.format,
        collection.licence,
        collection.source,
        documents,
        splits,
        list(collection.pools),
        dict(collection.notes()),
        list(collection.unread),
    )


def find_docs(collection: Collection, docnos: Sequence[str]) -> list[Doc]:
    """Find documents by docno, in this order, or raise CollectionError; reads only until all are found."""
    docs: dict[str, Doc | None] = dict.fromkeys(docnos)
    for doc in collection.docs() if docs else ():
        if doc.docno in docs and docs[doc.docno] is None:
            docs[doc.docno] = doc
            if None not in docs.values():
                break
    if missing := [docno for docno, doc in docs.items() if doc is None]:
        raise CollectionError(f"{collection.name} has no document {', '.join(map(repr, missing))}")
    return [doc for doc in docs.values() if doc]


def find_query(collection: Collection, qid: str, split: str | None = None) -> JudgedQuery:
    """Find a query by qid, in a split or in the first split that has it, or raise CollectionError."""
    splits = collection.splits if split is None else (collection.resolve_split(split),)
    for name in splits:
        query = next((query for query in collection.queries.get(name, tuple)() if query.qid == qid), None)
        if query is not None:
            qrels = (qrel for qrel in collection.qrels.get(name, tuple)() if qrel.qid == qid)
            answers = (answer for answer in collection.answers.get(name, tuple)() if answer.qid == qid)
            return JudgedQuery(name, query, {qrel.docno: qrel.grade for qrel in qrels}, tuple(answers))
    searched = f"in {', '.join(splits)}" if splits else "(it has no queries)"
    raise CollectionError(f"{collection.name} has no query {qid!r} {searched}")
