"""Read what a model learns from: relevant pairs with negatives, lists of documents, or triples."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Container
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from telerank.corpus.collection import Collection
from telerank.corpus.derived.questions import shuffle
from telerank.corpus.docstore import Docstore, DocstoreWriter
from telerank.corpus.readers.by_split import Triple, read_triples
from telerank.drafts import DRAFT, remove, replace_file, replace_folder
from telerank.errors import CollectionError, ModelError
from telerank.training.examples.groups import (
    FirstGroups,
    Group,
    Groups,
    LabelledPairs,
    ListedNegatives,
    LowerGrades,
    NegativeSource,
    QrelGroups,
    RandomNegatives,
    Scores,
    TripleGroups,
)
from telerank.training.settings import ListSettings, NegativeSettings, TrainingData, Triples
from telerank.training.trained import DATA
from telerank.trec import read_run
from telerank.types import Progress, Ranking, silent

TEXTS = "texts"  # the docstore of triples of ids
MANY = 10_000  # documents between two reports
_LONGEST_ID = 64  # characters; a text is longer, or contains a space
_Relevant = Mapping[str, Sequence[str]]


@dataclass(frozen=True, eq=False)
class Reading:
    """A training's data while it is read.

    ``seed`` decides queries, negatives and their order. Queries that are ``kept_back`` for dev and test are
    not learned from. ``teacher_run`` is a file with a teacher's scores. ``counts`` collects, by description,
    how much was read and how much was left out.
    """

    data: TrainingData
    seed: int
    collection: Collection
    kept_back: frozenset[str] = frozenset()
    progress: Progress = silent
    teacher_run: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    keeps: Container[tuple[str, str]] | None = None
    """The relevant pairs (qid, docno) to learn from; None: all."""

    def choose(self, qids: Container[str]) -> list[str]:
        """The queries to learn from: those that are not kept back, or ``data.queries`` of them.

        Raises CollectionError if there are fewer queries than ``data.queries``.
        """
        left = [qid for qid in qids if qid not in self.kept_back]
        if len(left) < len(qids):
            self.counts["queries kept back for dev and test"] = len(qids) - len(left)
        count = self.data.queries
        if count is not None and count > len(left):
            few = f"split {self.data.split!r} has {len(left):,} queries to learn from"
            raise CollectionError(f"{self.collection.name}: {few}, not {count:,}")
        return choose_queries(left, count, self.seed)

    def teacher(self, qids: Iterable[str]) -> dict[str, dict[str, float]] | None:
        """The teacher's scores for these queries; None if there is no teacher."""
        if self.teacher_run is None:
            return None
        kept = frozenset(qids)
        run = read_run(self.teacher_run)
        return {ranking.query.qid: dict(ranking) for ranking in run if ranking.query.qid in kept}


def choose_queries(qids: Iterable[str], count: int | None, seed: int) -> list[str]:
    """``count`` of the queries, drawn by the seed; a smaller choice is part of a larger one."""
    return list(qids) if count is None else shuffle(qids, str, seed=seed)[:count]


def relevant_pairs(collection: Collection, split: str) -> dict[str, list[str]]:
    """The relevant documents of each query of a split that has any.

    Raises CollectionError if no query has one.
    """
    relevant = collection.relevant([split])
    if not relevant:
        raise CollectionError(f"{collection.name}: split {split!r} has no relevant pair to learn from")
    return relevant


def graded_documents(collection: Collection, split: str) -> dict[str, dict[str, int]]:
    """The grades of a split's file: ``grades[qid][docno]``."""
    grades: dict[str, dict[str, int]] = {}
    for qrel in collection.split_qrels(split):
        grades.setdefault(qrel.qid, {})[qrel.docno] = qrel.grade
    return grades


def candidate_lists(collection: Collection, split: str, lists: ListSettings) -> Iterator[Ranking]:
    """The lists of a run file, or else of a pool of the split.

    Raises CollectionError if the collection has no such pool.
    """
    if lists.run is not None:
        return read_run(lists.run)
    name = f"{split}/{lists.pool}"
    if name not in collection.pools:
        known = ", ".join(collection.pools) or "none"
        raise CollectionError(f"{collection.name} has no pool {name!r}; it has: {known}")
    return collection.pools[name]()


def write_counts(counts: Mapping[str, int], output: Path) -> None:
    """Write counts to :data:`DATA` in the folder of a training."""
    replace_file(output / DATA, f"{json.dumps(counts, indent=2)}\n".encode())


def read_texts(collection: Collection, docnos: Container[str], progress: Progress = silent) -> dict[str, str]:
    """The texts of these documents, read in one pass; documents that the collection lacks are left out."""
    docs = collection.read_docs("reading documents", progress, MANY)
    return {doc.docno: doc.full_text for doc in docs if doc.docno in docnos}


def check_complete(
    needed: Iterable[str],
    present: Container[str],
    problem: str,
    reason: str = "that its qrels, lists or triples name",
) -> None:
    """Check that every needed name is present; the message reads ``problem 'name' reason``.

    Raises CollectionError if a name is missing.
    """
    missing = [name for name in needed if name not in present]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise CollectionError(f"{problem} {min(missing)!r}{more} {reason}")


def read_groups(reading: Reading, folder: Path) -> Groups:
    """The groups that a configuration describes; ``reading.counts`` reports how many of what there are.

    Of ``data.pairs`` the first groups that have as many; a shorter file of triples is refused later. Triples
    of ids need the text of any document at any time: ``folder`` then gets a docstore of the collection,
    unless it is there. Raises CollectionError if nothing is left to learn from, or the collection lacks a
    text that is named, or fewer pairs than ``data.pairs``; ModelError if the triples are texts, and a setting
    needs ids.
    """
    data = reading.data
    groups: Groups
    if data.triples:
        groups = triple_groups(reading, data.triples, folder)
    elif data.listed:
        groups = labelled_pairs(reading, data.listed, folder)
    else:
        groups = _qrel_groups(reading)
    if data.pairs is None:
        return groups
    size = len(groups[0].documents)
    available = math.inf if data.triples else len(groups) * size
    if data.pairs < size or data.pairs > available:
        limits = f"from {size}, the pairs of a group, to {available:,}"
        raise CollectionError(f"{reading.collection.name}: expected data.pairs {limits}, got {data.pairs:,}")
    reading.counts["pairs learned from"] = data.pairs // size * size
    return FirstGroups(groups, data.pairs // size, reading.seed)


def _qrel_groups(reading: Reading) -> QrelGroups:
    """Each relevant pair with negatives, and the texts of all that is drawn."""
    collection, split, negatives = reading.collection, reading.data.split, reading.data.negatives
    grades = graded_documents(collection, split) if negatives and negatives.judged else {}
    relevant = _choose_relevant(reading, grades)
    teacher = reading.teacher(relevant)
    if teacher is not None:
        scored = teacher
        relevant = _keep(relevant, lambda q, d: d in scored.get(q, {}), reading, "without a teacher's score")
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
    drawn = groups.source.docnos if groups.resample else chain(*map(groups.docnos, range(len(pairs))))
    needed = {docno for _, docno in pairs}.union(drawn)
    texts = read_texts(collection, needed, reading.progress)
    check_complete(needed, texts, f"{collection.name} has no document")
    return replace(groups, documents=texts)


def _choose_relevant(reading: Reading, grades: Mapping[str, Mapping[str, int]]) -> _Relevant:
    """The pairs of the queries to learn from: relevant ones, or with ``grades`` those above another one."""
    keeps = reading.keeps
    if grades:
        above = {qid: [d for d in own if own[d] > min(own.values())] for qid, own in grades.items()}
        every: _Relevant = {qid: docnos for qid, docnos in above.items() if docnos}
        if not every:
            raise CollectionError("negatives.judged: no query has judged documents of two grades")
    else:
        every = relevant_pairs(reading.collection, reading.data.split)
    if keeps is not None:
        every = _keep(every, lambda *pair: pair in keeps, reading, "without a known passage")
    return {qid: every[qid] for qid in reading.choose(every.keys())}


def _keep(relevant: _Relevant, keeps: Callable[[str, str], bool], reading: Reading, others: str) -> _Relevant:
    """The relevant pairs that ``keeps`` allows; the others, as they are called, are counted."""
    kept = {qid: [docno for docno in own if keeps(qid, docno)] for qid, own in relevant.items()}
    left_out = sum(map(len, relevant.values())) - sum(map(len, kept.values()))
    reading.counts[f"relevant pairs {others}, left out"] = left_out
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
    collection, split, counts = reading.collection, reading.data.split, reading.counts
    rows, tops = dict[str, int](), dict[str, Sequence[str]]()
    lists: dict[str, npt.NDArray[np.int32]] = {}
    grades = graded_documents(collection, split) if negatives.only else {}
    elsewhere = _relevant_to_others(reading, grades) if negatives.only == "relevant-elsewhere" else None
    for ranking in candidate_lists(collection, split, negatives):
        qid = ranking.query.qid
        if qid not in relevant:
            continue
        tops[qid] = ranking.docnos[: negatives.depth]
        others = [
            docno
            for docno in tops[qid]
            if docno not in relevant[qid]
            and (elsewhere is None or docno in elsewhere)
            and (teacher is None or docno in teacher[qid])
            and negatives.allows(grades.get(qid, {}).get(docno))
        ]
        if others:
            lists[qid] = np.array([rows.setdefault(docno, len(rows)) for docno in others], np.int32)
    if negatives.relevant == "listed":
        relevant = _keep(relevant, lambda q, d: d in tops.get(q, ()), reading, "beyond the lists")
        lists = {qid: own for qid, own in lists.items() if qid in relevant}
    few = sum(len(own) < negatives.per_positive for own in lists.values())
    counts["queries without a negative, left out"] = len(relevant) - len(lists)
    counts["queries with fewer negatives than are drawn: some come again"] = few
    return ListedNegatives(list(rows), lists), {qid: own for qid, own in relevant.items() if qid in lists}


def _relevant_to_others(reading: Reading, grades: Mapping[str, Mapping[str, int]]) -> set[str]:
    """The documents relevant to a query of the split, without those of queries that are kept back."""
    every, kept_back = set[str](), set[str]()
    for qid, own in grades.items():
        relevant = {docno for docno, grade in own.items() if grade >= reading.collection.relevant_from}
        (kept_back if qid in reading.kept_back else every).update(relevant)
    return every - kept_back


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
    for ranking in candidate_lists(collection, split, lists):
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


def triple_groups(reading: Reading, triples: Triples, folder: Path) -> TripleGroups:
    """The groups of a file; if it has ids, ``folder`` gets a docstore of the collection.

    Raises CollectionError if the file has no triple; ModelError if the triples are texts, and a setting needs
    ids.
    """
    path, data = Path(triples.file), reading.data
    first = next(iter(read_triples(path, data.encoding)), None)
    if first is None:
        raise CollectionError(f"{path}: no triple to learn from")
    group: Callable[[Triple], Group] = group_of_texts
    accepts: Callable[[Triple], bool] | None = None
    if all(len(column) <= _LONGEST_ID and " " not in column for column in first):
        group, accepts = _by_id(reading, path, folder)
    elif reading.teacher_run or data.queries or reading.kept_back:
        needs = "a teacher, a choice of queries, or dev and test of the same split need ids"
        raise ModelError(f"{path}: these are triples of texts; {needs}")
    window, seed, progress = triples.window, reading.seed, reading.progress
    return TripleGroups(path, group, accepts, seed, window, data.encoding, progress)


def group_of_texts(triple: Triple) -> Group:
    """The group of a triple of texts, which are named by themselves."""
    documents = triple.positive, triple.negative
    return Group(triple.query, documents, qid=triple.query, docnos=documents)


def _by_id(
    reading: Reading, path: Path, folder: Path
) -> tuple[Callable[[Triple], Group], Callable[[Triple], bool]]:
    """What makes groups of triples of ids, and says which ones are learned from."""
    every = {query.qid: query.text for query in reading.collection.split_queries(reading.data.split)}
    chosen = frozenset(reading.choose(every.keys()))
    reading.counts["queries of the split"] = len(chosen)
    docs = stored_docs(reading.collection, folder, reading.progress)
    teacher = reading.teacher(chosen)

    def accepts(triple: Triple) -> bool:
        # a query that the split lacks is an error, not a query that is left out
        if triple.query in every and triple.query not in chosen:
            return False
        scores = None if teacher is None else teacher.get(triple.query, {})
        return scores is None or (triple.positive in scores and triple.negative in scores)

    def group(triple: Triple) -> Group:
        qid, docnos = triple.query, (triple.positive, triple.negative)
        try:
            query, texts = every[qid], tuple(docs[docno].full_text for docno in docnos)
        except KeyError as error:
            raise CollectionError(f"{path}: the collection has no {error.args[0]!r}") from error
        scores = tuple(teacher[qid][docno] for docno in docnos) if teacher else ()
        return Group(query, texts, scores, qid, docnos)

    return group, accepts


def stored_docs(collection: Collection, folder: Path, progress: Progress = silent) -> Docstore:
    """The collection's docstore in ``folder``, which is written first if it is missing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    # of several processes the first writes, and the others wait
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            draft = folder.with_name(folder.name + DRAFT)
            remove(draft)
            with DocstoreWriter(draft) as writer:
                for doc in collection.read_docs("storing documents", progress, MANY):
                    writer.add(doc)
            replace_folder(folder, draft)
    return Docstore(folder)
