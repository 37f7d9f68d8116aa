"""What a re-ranker learns from: the relevant pairs of a split, each with negatives; or triples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from telerank.errors import CollectionError
from telerank.training.bi_encoder.examples import texts_of
from telerank.training.reranker.config import RerankerNegatives
from telerank.training.reranker.groups import Anything, Groups, GroupSource, Listed, QrelGroups, Scores
from telerank.training.reranker.reading import Reading, all_there, candidate_lists, relevant_pairs
from telerank.training.reranker.triple_examples import triple_groups

_Relevant = Mapping[str, tuple[str, ...]]


def read_groups(reading: Reading, folder: Path) -> Groups:
    """The groups that a configuration asks for; ``reading.counts`` tells of what there are how many.

    Triples of ids need any text at any time: ``folder`` gets a docstore of the collection then, unless it is
    there.

    Raises
    ------
    CollectionError
        where nothing is left to learn from, or the collection lacks a text that is named.
    ModelError
        where a teacher or a choice of queries is asked for that triples of texts cannot have.
    """
    wanted = reading.config.data
    if wanted.triples:
        return triple_groups(reading, wanted.triples, folder)
    return _qrel_groups(reading, wanted.negatives or RerankerNegatives(random=True))


def _qrel_groups(reading: Reading, wanted: RerankerNegatives) -> QrelGroups:
    collection, split = reading.collection, reading.config.data.split
    judged = relevant_pairs(collection, split)
    relevant: _Relevant = {qid: judged[qid] for qid in reading.chosen(judged.keys())}
    teacher = reading.teacher(relevant)
    if teacher is not None:
        relevant = _taught(relevant, teacher, reading.counts)
    if wanted.random:
        source: GroupSource = _anything(reading, wanted, relevant)
    else:
        source, relevant = _listed(reading, wanted, relevant, teacher)
    pairs = [(qid, docno) for qid, docnos in relevant.items() for docno in docnos]
    reading.counts.update({"queries": len(relevant), "relevant pairs": len(pairs)})
    if not pairs:
        raise CollectionError(f"{collection.name}: no query of split {split!r} is left to learn from")
    queries = {one.qid: one.text for one in collection.split_queries(split) if one.qid in relevant}
    all_there(relevant, queries, f"{collection.name}: split {split!r} has no query")
    drawn = wanted.per_positive, reading.config.data_seed, wanted.resample
    return _with_texts(QrelGroups(pairs, queries, {}, source, *drawn, teacher), reading)


def _taught(relevant: _Relevant, teacher: Scores, counts: dict[str, int]) -> _Relevant:
    """The relevant documents that the teacher has scored."""
    kept = {
        qid: tuple(one for one in docnos if one in teacher[qid])
        for qid, docnos in relevant.items()
        if qid in teacher
    }
    lost = sum(map(len, relevant.values())) - sum(map(len, kept.values()))
    counts["relevant pairs without a teacher's score, left out"] = lost
    return {qid: docnos for qid, docnos in kept.items() if docnos}


def _anything(reading: Reading, wanted: RerankerNegatives, relevant: _Relevant) -> Anything:
    docnos = [doc.docno for doc in reading.collection.docs()]
    if len(docnos) < wanted.per_positive + max(map(len, relevant.values()), default=0):
        few = f"{len(docnos)} documents are too few for {wanted.per_positive} random negatives"
        raise CollectionError(f"{reading.collection.name}: {few}")
    return Anything(docnos, {qid: frozenset(own) for qid, own in relevant.items()})


def _listed(
    reading: Reading, wanted: RerankerNegatives, relevant: _Relevant, teacher: Scores | None
) -> tuple[Listed, _Relevant]:
    """The lists of negatives, and the queries that have one."""
    split = reading.config.data.split
    places: dict[str, int] = {}
    found = {}
    for ranking in candidate_lists(reading.collection, split, run=wanted.run, pool=wanted.pool):
        qid = ranking.query.qid
        if qid in relevant:
            named = [one for one in ranking.docnos[: wanted.depth] if one not in relevant[qid]]
            kept = [one for one in named if teacher is None or one in teacher[qid]]
            if kept:
                found[qid] = np.array([places.setdefault(one, len(places)) for one in kept], np.int32)
    few = sum(len(one) < wanted.per_positive for one in found.values())
    reading.counts["queries without a negative, left out"] = len(relevant) - len(found)
    reading.counts["queries with fewer negatives than are drawn: some come again"] = few
    return Listed(list(places), found), {qid: own for qid, own in relevant.items() if qid in found}


def _with_texts(groups: QrelGroups, reading: Reading) -> QrelGroups:
    """With the texts of what is drawn: in the first epoch, or wherever ``resample`` may draw."""
    source, needed = groups.source, {docno for _, docno in groups.pairs}
    if not groups.resample:
        needed.update(docno for pair in range(len(groups.pairs)) for docno in groups.docnos(pair))
    elif isinstance(source, Listed):
        needed.update(source.docnos[place] for one in source.lists.values() for place in one.tolist())
    elif isinstance(source, Anything):
        needed.update(source.docnos)
    texts = texts_of(reading.collection, needed, reading.progress)
    all_there(needed, texts, f"{reading.collection.name} has no document")
    return replace(groups, documents=texts)
