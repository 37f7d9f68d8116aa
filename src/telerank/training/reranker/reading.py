"""Reading what a re-ranker learns from: relevant pairs, lists of candidates, a teacher's scores."""

from __future__ import annotations

from collections.abc import Collection as Several
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
    """Queries ``kept_back`` for dev and test are not learned from; ``counts`` is filled by what reads."""

    config: RerankerTraining
    collection: Collection
    kept_back: frozenset[str] = frozenset()
    progress: Progress = silent
    counts: dict[str, int] = field(default_factory=dict)

    def chosen(self, qids: Several[str]) -> list[str]:
        """The queries that are learned from: not those kept back, and so many as are asked for."""
        left = [qid for qid in qids if qid not in self.kept_back]
        if len(left) < len(qids):
            self.counts["queries kept back for dev and test"] = len(qids) - len(left)
        wanted = self.config.data.queries
        if wanted is not None and wanted > len(left):
            few = f"split {self.config.data.split!r} has {len(left):,} queries to learn from"
            raise CollectionError(f"{self.collection.name}: {few}, not {wanted:,}")
        return chosen(left, wanted, self.config.data_seed)

    def teacher(self, qids: Iterable[str]) -> dict[str, dict[str, float]] | None:
        """The teacher's scores for these queries; None where there is no teacher."""
        if self.config.loss.teacher is None:
            return None
        asked = frozenset(qids)
        told = read_run(self.config.loss.teacher)
        return {one.query.qid: dict(one) for one in told if one.query.qid in asked}


def chosen(qids: Iterable[str], count: int | None, seed: int) -> list[str]:
    """So many of the queries, by the seed: those of a smaller count are among those of a larger one."""
    return list(qids) if count is None else shuffle(qids, str, seed=seed)[:count]


def relevant_pairs(collection: Collection, split: str) -> dict[str, tuple[str, ...]]:
    """The relevant documents of each query of a split that has any.

    Raises
    ------
    CollectionError
        where no query has one.
    """
    found: dict[str, dict[str, None]] = {}
    for one in collection.split_qrels(split):
        if one.grade >= collection.relevant_from:
            found.setdefault(one.qid, {})[one.docno] = None
    if not found:
        raise CollectionError(f"{collection.name}: split {split!r} has no relevant pair to learn from")
    return {qid: tuple(docnos) for qid, docnos in found.items()}


def candidate_lists(
    collection: Collection, split: str, *, run: str | None, pool: str | None
) -> Iterator[Ranking]:
    """The lists of a run file, or else of a pool of the split.

    Raises
    ------
    CollectionError
        where the collection has no such pool.
    """
    if run is not None:
        return read_run(run)
    name = f"{split}/{pool}"
    if name not in collection.pools:
        has = ", ".join(collection.pools) or "none"
        raise CollectionError(f"{collection.name} has no pool {name!r}; it has: {has}")
    return collection.pools[name]()


def all_there(
    wanted: Iterable[str], there: Several[str], says: str, why: str = "that its qrels, lists or triples name"
) -> None:
    """Refuse what lacks a wanted name; the message begins with ``says``, and ends with ``why`` it is wanted.

    Raises
    ------
    CollectionError
        where one is lacking.
    """
    lacking = [name for name in wanted if name not in there]
    if lacking:
        more = f" (and {len(lacking) - 1} more)" if len(lacking) > 1 else ""
        raise CollectionError(f"{says} {min(lacking)!r}{more} {why}")
