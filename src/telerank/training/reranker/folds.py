"""Which queries a training learns from, looks at, and is measured on: never the same ones."""

from __future__ import annotations

from collections.abc import Collection as Several
from dataclasses import dataclass

from telerank.corpus.collection import Collection
from telerank.corpus.ranking_sets.splits import shuffle
from telerank.errors import CollectionError
from telerank.training.reranker.candidates import SAME, judged_queries
from telerank.training.reranker.config import RerankerTraining


@dataclass(frozen=True)
class QueryParts:
    """Queries of dev and of test; ``kept_back`` are those of the split that is learned from."""

    dev: frozenset[str] = frozenset()
    test: frozenset[str] = frozenset()
    kept_back: frozenset[str] = frozenset()


def parted(collection: Collection, config: RerankerTraining) -> QueryParts:
    """The parts of a training; where dev and test are of one split, the test chooses first.

    Raises
    ------
    CollectionError
        where one of them is left without a judged query.
    """
    learned, dev, test = config.data.split, config.dev, config.test
    tested: frozenset[str] = frozenset()
    if test is not None:
        tested = frozenset(_fold(collection, config) or judged_queries(collection, test))
    looked: frozenset[str] = frozenset()
    if dev is not None:
        without = tested if test is not None and test.split == dev.split else frozenset[str]()
        looked = frozenset(judged_queries(collection, dev, without))
    own = ((dev, looked), (test, tested))
    kept_back = (qids for part, qids in own if part is not None and part.split == learned)
    return QueryParts(looked, tested, frozenset().union(*kept_back))


def folds(qids: Several[str], count: int, seed: int) -> list[list[str]]:
    """The queries in ``count`` parts whose sizes differ by one at most; whatever order they come in.

    Raises
    ------
    CollectionError
        where there are fewer queries than parts.
    """
    if len(qids) < count:
        raise CollectionError(f"{len(qids)} queries cannot be cut into {count} folds")
    order = shuffle(qids, str, seed=seed)
    return [order[first::count] for first in range(count)]


def _fold(collection: Collection, config: RerankerTraining) -> list[str]:
    """The queries of the fold that is held out; none where there are no folds."""
    if config.folds is None or config.held_out is None or config.test is None:
        return []
    return folds(judged_queries(collection, config.test), config.folds, SAME)[config.held_out]
