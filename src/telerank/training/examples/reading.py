"""Read what a model learns from: relevant pairs, lists of candidates, a teacher's scores."""

from __future__ import annotations

import json
from collections.abc import Collection as Container
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.derived.questions import shuffle
from telerank.drafts import replace_file
from telerank.errors import CollectionError
from telerank.training.settings import TrainingData
from telerank.training.trained import DATA
from telerank.trec import read_run
from telerank.types import Progress, Ranking, silent


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


def relevant_pairs(collection: Collection, split: str) -> dict[str, tuple[str, ...]]:
    """The relevant documents of each query of a split that has any.

    Raises CollectionError if no query has one.
    """
    relevant: dict[str, dict[str, None]] = {}
    for qrel in collection.split_qrels(split):
        if qrel.grade >= collection.relevant_from:
            relevant.setdefault(qrel.qid, {})[qrel.docno] = None
    if not relevant:
        raise CollectionError(f"{collection.name}: split {split!r} has no relevant pair to learn from")
    return {qid: tuple(docnos) for qid, docnos in relevant.items()}


def graded_documents(collection: Collection, split: str) -> dict[str, dict[str, int]]:
    """The grades of a split's file: ``grades[qid][docno]``."""
    grades: dict[str, dict[str, int]] = {}
    for qrel in collection.split_qrels(split):
        grades.setdefault(qrel.qid, {})[qrel.docno] = qrel.grade
    return grades


def pairs_above_others(grades: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
    """The documents of each query that are judged above another of it, for the queries that have any.

    Raises CollectionError if no query has one.
    """
    least = {qid: min(own.values()) for qid, own in grades.items()}
    above = {
        qid: tuple(docno for docno, grade in own.items() if grade > least[qid]) for qid, own in grades.items()
    }
    if not any(above.values()):
        raise CollectionError("negatives.judged: no query has judged documents of two grades")
    return {qid: docnos for qid, docnos in above.items() if docnos}


def candidate_lists(
    collection: Collection, split: str, *, run: str | None, pool: str | None
) -> Iterator[Ranking]:
    """The lists of a run file, or else of a pool of the split.

    Raises CollectionError if the collection has no such pool.
    """
    if run is not None:
        return read_run(run)
    name = f"{split}/{pool}"
    if name not in collection.pools:
        known = ", ".join(collection.pools) or "none"
        raise CollectionError(f"{collection.name} has no pool {name!r}; it has: {known}")
    return collection.pools[name]()


def write_counts(counts: Mapping[str, int], output: Path) -> None:
    """Write counts to :data:`DATA` in the folder of a training."""
    replace_file(output / DATA, f"{json.dumps(counts, indent=2)}\n".encode())


def read_texts(collection: Collection, docnos: Container[str], progress: Progress = silent) -> dict[str, str]:
    """The texts of these documents, read in one pass; documents that the collection lacks are left out."""
    texts = {}
    for number, doc in enumerate(collection.docs(), 1):
        if doc.docno in docnos:
            texts[doc.docno] = doc.full_text
        if number % 10_000 == 0:
            progress("reading documents", number, collection.size)
    return texts


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
