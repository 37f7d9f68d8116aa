"""Read what a re-ranker learns from: relevant pairs, lists of candidates, a teacher's scores."""

from __future__ import annotations

from collections.abc import Collection as Container
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from telerank.corpus.collection import Collection
from telerank.corpus.ranking_sets.splits import shuffle
from telerank.errors import CollectionError
from telerank.training.reranker.config import RerankerTraining
from telerank.trec import read_run
from telerank.types import Progress, Ranking, silent


@dataclass(frozen=True, eq=False)
class Reading:
    """A training's data while it is read.

    Queries that are ``kept_back`` for dev and test are not learned from. ``counts`` collects, by description,
    how much was read and how much was left out.
    """

    config: RerankerTraining
    collection: Collection
    kept_back: frozenset[str] = frozenset()
    progress: Progress = silent
    counts: dict[str, int] = field(default_factory=dict)

    def choose(self, qids: Container[str]) -> list[str]:
        """The queries to learn from: those that are not kept back, or ``data.queries`` of them.

        Raises CollectionError if there are fewer queries than ``data.queries``.
        """
        left = [qid for qid in qids if qid not in self.kept_back]
        if len(left) < len(qids):
            self.counts["queries kept back for dev and test"] = len(qids) - len(left)
        count = self.config.data.queries
        if count is not None and count > len(left):
            few = f"split {self.config.data.split!r} has {len(left):,} queries to learn from"
            raise CollectionError(f"{self.collection.name}: {few}, not {count:,}")
        return choose_queries(left, count, self.config.data_seed)

    def teacher(self, qids: Iterable[str]) -> dict[str, dict[str, float]] | None:
        """The teacher's scores for these queries; None if there is no teacher."""
        if self.config.loss.teacher is None:
            return None
        kept = frozenset(qids)
        run = read_run(self.config.loss.teacher)
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
