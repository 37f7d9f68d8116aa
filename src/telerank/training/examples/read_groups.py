"""Read the groups of a training: the relevant pairs of a split, each with negatives; lists; or triples."""

from __future__ import annotations

import math
from array import array
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import CollectionError
from telerank.training.examples.groups import (
    FirstGroups,
    Group,
    Groups,
    ListedNegatives,
    LowerGrades,
    NegativeSource,
    QrelGroups,
    RandomNegatives,
    Scores,
    draw_position,
)
from telerank.training.examples.reading import (
    Reading,
    candidate_lists,
    check_complete,
    graded_documents,
    pairs_above_others,
    read_texts,
    relevant_pairs,
)
from telerank.training.examples.triples import stored_docs, triple_groups
from telerank.training.settings import ListSettings, NegativeSettings


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

    @property
    def most_pairs(self) -> float:
        return len(self.rows)

    def __getitem__(self, number: int) -> Group:
        _, pair = draw_position(number, len(self.rows), self.seed)
        qid, docno = self.qids[self.rows[pair, 0]], self.docnos[self.rows[pair, 1]]
        try:
            text = self.docs[docno].full_text
        except KeyError as error:
            raise CollectionError(f"the collection has no document {docno!r} of a list of {qid}") from error
        is_relevant = bool(self.relevant[pair])
        return Group(self.queries[qid], (text,), qid=qid, docnos=(docno,), relevant=is_relevant)


def labelled_pairs(reading: Reading, lists: ListSettings, folder: Path) -> LabelledPairs:
    """The first documents of the lists of the split's judged queries; ``folder`` gets a docstore.

    Raises CollectionError if no query has a list, or the collection lacks a query that is judged.
    """
    collection, split = reading.collection, reading.data.split
    relevant = relevant_pairs(collection, split)
    positions = {qid: row for row, qid in enumerate(reading.choose(relevant))}
    docnos: dict[str, int] = {}
    rows, labels = array("i"), array("b")
    listed = 0
    for ranking in candidate_lists(collection, split, run=lists.run, pool=lists.pool):
        qid = ranking.query.qid
        if qid in positions and len(ranking):
            listed += 1
            for docno in ranking.docnos[: lists.depth]:
                rows.extend((positions[qid], docnos.setdefault(docno, len(docnos))))
                labels.append(docno in relevant[qid])
    if not listed:
        raise CollectionError(f"{collection.name}: no judged query of split {split!r} has a list")
    queries = {query.qid: query.text for query in collection.split_queries(split) if query.qid in positions}
    check_complete(positions, queries, f"{collection.name}: split {split!r} has no query")
    counts = {"queries": listed, "pairs": len(labels), "relevant pairs": sum(labels)}
    reading.counts.update({**counts, "queries without a list, left out": len(positions) - listed})
    docs = stored_docs(collection, folder, reading.progress)
    pairs = np.array(rows, np.int32).reshape(-1, 2)
    return LabelledPairs(
        tuple(positions), queries, tuple(docnos), docs, pairs, np.array(labels, np.bool_), reading.seed
    )


TEXTS = "texts"  # the docstore of triples of ids
_Relevant = Mapping[str, tuple[str, ...]]


def read_groups(reading: Reading, folder: Path) -> Groups:
    """The groups that a configuration describes; ``reading.counts`` reports how many of what there are.

    Triples of ids need the text of any document at any time: ``folder`` then gets a docstore of the
    collection, unless it is there. Raises CollectionError if nothing is left to learn from, or the collection
    lacks a text that is named, or fewer pairs than ``data.pairs``; ModelError if the triples are texts, and a
    setting needs ids.
    """
    data = reading.data
    if data.triples:
        return _limit(triple_groups(reading, data.triples, folder), reading)
    if data.listed:
        return _limit(labelled_pairs(reading, data.listed, folder), reading)
    return _limit(_qrel_groups(reading), reading)


def _limit(groups: Groups, reading: Reading) -> Groups:
    """The first groups, as many as have ``data.pairs``; a shorter file of triples is refused later."""
    pairs = reading.data.pairs
    if pairs is None:
        return groups
    size = len(groups[0].documents)
    available = math.inf if reading.data.triples else len(groups) * size
    if pairs < size or pairs > available:
        limits = f"from {size}, the pairs of a group, to {available:,}"
        raise CollectionError(f"{reading.collection.name}: expected data.pairs {limits}, got {pairs:,}")
    reading.counts["pairs learned from"] = pairs // size * size
    return FirstGroups(groups, pairs // size, reading.seed)


def _qrel_groups(reading: Reading) -> QrelGroups:
    collection, split, negatives = reading.collection, reading.data.split, reading.data.negatives
    grades = graded_documents(collection, split) if negatives and negatives.judged else {}
    every: _Relevant = pairs_above_others(grades) if grades else relevant_pairs(collection, split)
    if reading.keeps is not None:
        every = _with_passage(every, reading.keeps, reading.counts)
    relevant: _Relevant = {qid: every[qid] for qid in reading.choose(every.keys())}
    teacher = reading.teacher(relevant)
    if teacher is not None:
        relevant = _scored(relevant, teacher, reading.counts)
    source: NegativeSource = ListedNegatives((), {})  # a bi-encoder's, whose negatives are those of its batch
    if negatives and negatives.judged:
        source = LowerGrades({qid: grades[qid] for qid in relevant})
    elif negatives and negatives.random:
        source = _random_negatives(reading, negatives, relevant)
    elif negatives:
        source, relevant = _listed_negatives(reading, negatives, relevant, teacher)
    pairs = [(qid, docno) for qid, docnos in relevant.items() for docno in docnos]
    reading.counts.update({"queries": len(relevant), "relevant pairs": len(pairs)})
    if not pairs:
        raise CollectionError(f"{collection.name}: no query of split {split!r} is left to learn from")
    queries = {query.qid: query.text for query in collection.split_queries(split) if query.qid in relevant}
    check_complete(relevant, queries, f"{collection.name}: split {split!r} has no query")
    groups = QrelGroups(
        pairs,
        queries,
        documents={},
        source=source,
        negatives=negatives.per_positive if negatives else 0,
        per_group=negatives.per_group if negatives else None,
        seed=reading.seed,
        resample=bool(negatives and negatives.resample),
        teacher=teacher,
    )
    return _with_texts(groups, reading)


def _with_passage(
    relevant: _Relevant, keeps: Container[tuple[str, str]], counts: dict[str, int]
) -> _Relevant:
    """The relevant pairs that are among those to keep."""
    kept = {qid: tuple(docno for docno in own if (qid, docno) in keeps) for qid, own in relevant.items()}
    total, left = sum(map(len, relevant.values())), sum(map(len, kept.values()))
    counts["relevant pairs without a known passage, left out"] = total - left
    return {qid: docnos for qid, docnos in kept.items() if docnos}


def _scored(relevant: _Relevant, teacher: Scores, counts: dict[str, int]) -> _Relevant:
    """The relevant documents that the teacher has scored."""
    kept = {
        qid: tuple(docno for docno in docnos if docno in teacher[qid])
        for qid, docnos in relevant.items()
        if qid in teacher
    }
    lost = sum(map(len, relevant.values())) - sum(map(len, kept.values()))
    counts["relevant pairs without a teacher's score, left out"] = lost
    return {qid: docnos for qid, docnos in kept.items() if docnos}


def _random_negatives(reading: Reading, negatives: NegativeSettings, relevant: _Relevant) -> RandomNegatives:
    docnos = [doc.docno for doc in reading.collection.docs()]
    if len(docnos) < negatives.per_positive + max(map(len, relevant.values()), default=0):
        few = f"{len(docnos)} documents are too few for {negatives.per_positive} random negatives"
        raise CollectionError(f"{reading.collection.name}: {few}")
    return RandomNegatives(docnos, {qid: frozenset(own) for qid, own in relevant.items()})


def _listed_negatives(
    reading: Reading, negatives: NegativeSettings, relevant: _Relevant, teacher: Scores | None
) -> tuple[ListedNegatives, _Relevant]:
    """The lists of negatives, and the queries that have one."""
    split = reading.data.split
    rows: dict[str, int] = {}
    lists, listed = {}, dict[str, tuple[str, ...]]()
    grades = graded_documents(reading.collection, split) if negatives.only else {}
    elsewhere = _relevant_to_others(reading, grades) if negatives.only == "relevant-elsewhere" else None
    for ranking in candidate_lists(reading.collection, split, run=negatives.run, pool=negatives.pool):
        qid = ranking.query.qid
        if qid in relevant:
            top = ranking.docnos[: negatives.depth]
            listed[qid] = tuple(docno for docno in relevant[qid] if docno in top)
            others = [docno for docno in top if docno not in relevant[qid]]
            if elsewhere is not None:
                others = [docno for docno in others if docno in elsewhere]
            own = grades.get(qid, {})
            kept = [
                docno
                for docno in others
                if (teacher is None or docno in teacher[qid]) and negatives.allows(own.get(docno))
            ]
            if kept:
                lists[qid] = np.array([rows.setdefault(docno, len(rows)) for docno in kept], np.int32)
    if negatives.relevant == "listed":
        kept_pairs, total = sum(map(len, listed.values())), sum(map(len, relevant.values()))
        reading.counts["relevant pairs beyond the lists, left out"] = total - kept_pairs
        relevant = {qid: own for qid, own in listed.items() if own}
        lists = {qid: own for qid, own in lists.items() if qid in relevant}
    few = sum(len(own) < negatives.per_positive for own in lists.values())
    reading.counts["queries without a negative, left out"] = len(relevant) - len(lists)
    reading.counts["queries with fewer negatives than are drawn: some come again"] = few
    return ListedNegatives(list(rows), lists), {qid: own for qid, own in relevant.items() if qid in lists}


def _relevant_to_others(reading: Reading, grades: Mapping[str, Mapping[str, int]]) -> set[str]:
    """The documents relevant to a query of the split, without those of queries that are kept back."""
    every, kept_back = set[str](), set[str]()
    for qid, own in grades.items():
        relevant = {docno for docno, grade in own.items() if grade >= reading.collection.relevant_from}
        (kept_back if qid in reading.kept_back else every).update(relevant)
    return every - kept_back


def _with_texts(groups: QrelGroups, reading: Reading) -> QrelGroups:
    """The groups with the texts of all that is drawn: in the first epoch, or, with ``resample``, in any."""
    needed = {docno for _, docno in groups.pairs}
    if groups.resample:
        needed.update(groups.source.docnos)
    else:
        needed.update(docno for pair in range(len(groups.pairs)) for docno in groups.docnos(pair))
    texts = read_texts(reading.collection, needed, reading.progress)
    check_complete(needed, texts, f"{reading.collection.name} has no document")
    return replace(groups, documents=texts)
