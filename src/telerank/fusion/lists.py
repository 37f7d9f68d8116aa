"""Fuse the rankings of a query: in turns, by scaled and weighted scores, or by ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from numbers import Real

import numpy as np

from telerank.errors import ArgumentError, count_noun, known_names
from telerank.types import Query, Ranking, Scores

DEPTH = 1000  # of each list and of the interleaved one (Zhan et al. 2020, RepBERT)
K = 60.0  # of reciprocal ranks (Cormack et al. 2009)


def interleave_rankings(rankings: Sequence[Ranking], depth: int | None = DEPTH) -> Ranking:
    """Take documents from the lists in turns, each at its first occurrence, cut to ``depth`` (None: uncut).

    A list that has ended is skipped (Zhan et al. 2020, RepBERT, equation 6). Scores are 1 / rank: they do
    not depend on the depth, and are above 0, which is what a document that is not in a list counts in a sum.
    """
    turns = zip_longest(*(ranking.docnos[:depth] for ranking in rankings))
    firsts = dict.fromkeys(docno for turn in turns for docno in turn if docno is not None)
    docnos = tuple(islice(firsts, depth))
    return Ranking.presorted(check_query(rankings), docnos, 1.0 / np.arange(1, len(docnos) + 1))


def scale_scores(ranking: Ranking) -> Ranking:
    """Scale the scores over the ranking (see :func:`scale`).

    In a sum, a document that is not in a list counts 0, like the last one, since its distance from the last
    is unknown.
    """
    return Ranking.ranked(ranking.query, ranking.docnos, scale(ranking.scores))  # rounding may create ties


def scale(scores: Scores) -> Scores:
    """(score - minimum) / (maximum - minimum) (Piaf report, equation 20).

    The formula does not cover equal scores: they become 1, so that the first document of every list has 1,
    and a document retrieved alone counts.
    """
    if not len(scores):
        return scores
    halves = scores / 2  # exact, and differences do not overflow
    spread = halves.max() - halves.min()
    return (halves - halves.min()) / spread if spread else np.ones_like(scores)


def sum_reciprocal_ranks(rankings: Sequence[Ranking], k: float = K) -> Ranking:
    """Sum 1 / (k + rank) over the lists that hold a document (Cormack, Clarke, Büttcher, SIGIR 2009)."""
    check_k(k)
    query = check_query(rankings)
    shares: dict[str, list[float]] = {}
    for ranking in rankings:
        for rank, docno in enumerate(ranking.docnos, 1):
            shares.setdefault(docno, []).append(1.0 / (k + rank))
    # rounded once: the same ranks in other lists are the same score
    return Ranking.ranked(query, tuple(shares), [math.fsum(parts) for parts in shares.values()])


def sum_rankings(rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
    """Sum the scaled scores of the lists, each times its weight; a document not in a list has 0 there.

    The result equals that of the stage :func:`~telerank.fusion.stages.linear` to the bit.
    """
    return AlignedLists.of(rankings).sum(weights)


@dataclass(frozen=True, eq=False)
class AlignedLists:
    """The lists of a query as a table, to try many weights quickly.

    ``docnos`` are in descending order, in which ties are broken; ``table`` has shape (lists, documents),
    with 0 for a document that is not in a list.
    """

    query: Query
    docnos: tuple[str, ...]
    table: Scores

    @classmethod
    def of(cls, rankings: Sequence[Ranking], *, scale: bool = True) -> AlignedLists:
        """The lists of one query, with their scores scaled to [0, 1] or (``scale`` False) as they are."""
        query = check_query(rankings)
        docnos = sorted({docno for ranking in rankings for docno in ranking.docnos}, reverse=True)
        column = {docno: i for i, docno in enumerate(docnos)}
        table = np.zeros((len(rankings), len(docnos)))
        for row, ranking in zip(table, map(scale_scores, rankings) if scale else rankings, strict=True):
            row[[column[docno] for docno in ranking.docnos]] = ranking.scores
        return cls(query, tuple(docnos), table)

    def sum(self, weights: Sequence[float], depth: int | None = None) -> Ranking:
        """The ranking by the weighted sum, cut to ``depth``."""
        check_weights(weights, len(self.table))
        totals = np.zeros(len(self.docnos))
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked below
            for weight, row in zip(weights, self.table, strict=True):  # one after another, like Sum
                totals += weight * row
        if not np.isfinite(totals).all():
            raise ArgumentError(f"query {self.query.qid}: weights of {tuple(weights)} make scores too large")
        order = np.argsort(-totals, kind="stable")[:depth]
        return Ranking.presorted(self.query, tuple(self.docnos[i] for i in order), totals[order])


@dataclass(frozen=True)
class Fusion:
    """A method that fuses rankings of a query, by name, with its settings.

    ``weights`` are for ``linear`` (default: equal), ``k`` for ``rrf``. Each ranking is cut to ``depth``
    first, the fused one to ``keep`` (default: ``depth``); None cuts nothing. An unknown method, or
    weights for one that takes none, raise ValueError.
    """

    method: str = "rrf"
    weights: tuple[float, ...] = ()
    k: float = K
    depth: int | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise ArgumentError(f"there is no fusion {self.method!r}; {known_names(_METHODS, self.method)}")
        for weight in self.weights:
            if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
                raise ArgumentError(f"a weight must be a finite number, got {weight!r:.60}")
        if self.weights and self.method != "linear":
            raise ArgumentError(f"only the fusion linear takes weights, not {self.method}")

    def __call__(self, rankings: Sequence[Ranking]) -> Ranking:
        lists = rankings if self.depth is None else [ranking.cut(self.depth) for ranking in rankings]
        fused = _METHODS[self.method](self, lists)
        keep = self.keep or self.depth
        return fused if keep is None else fused.cut(keep)


_METHODS: Mapping[str, Callable[[Fusion, Sequence[Ranking]], Ranking]] = {
    "interleave": lambda _, lists: interleave_rankings(lists, None),
    "linear": lambda fusion, lists: sum_rankings(lists, fusion.weights or [1 / len(lists)] * len(lists)),
    "rrf": lambda fusion, lists: sum_reciprocal_ranks(lists, fusion.k),
}


def join_runs(runs: Sequence[Iterable[Ranking]]) -> Iterator[tuple[Ranking, ...]]:
    """Yield the rankings of each query of any run; the ranking is empty if a run lacks the query.

    A query is yielded as soon as every run has reached it, so runs over the same queries in the same
    order need not fit in memory; queries that a run lacks come last. The texts of a query may differ
    (run files hold none): the first text that is not empty is used. A query that occurs twice in a run
    is a ValueError.
    """
    streams = {i: iter(run) for i, run in enumerate(runs)}
    waiting: dict[str, dict[int, Ranking]] = {}  # rankings by run, of queries that not all runs have reached
    seen: list[set[str]] = [set() for _ in runs]
    while streams:
        for i, stream in list(streams.items()):
            ranking = next(stream, None)
            if ranking is None:
                del streams[i]
                continue
            qid = ranking.query.qid
            if qid in seen[i]:
                raise ArgumentError(f"query {qid} occurs twice in run {i + 1}")
            seen[i].add(qid)
            lists = waiting.setdefault(qid, {})
            lists[i] = ranking
            if len(lists) == len(runs):
                yield _complete(waiting.pop(qid), len(runs))
    for lists in waiting.values():
        yield _complete(lists, len(runs))


def _complete(lists: Mapping[int, Ranking], runs: int) -> tuple[Ranking, ...]:
    queries = [lists[i].query for i in sorted(lists)]
    query = next((query for query in queries if query.text), queries[0])
    rankings = (lists.get(i, Ranking(query)) for i in range(runs))
    return tuple(Ranking.presorted(query, ranking.docnos, ranking.scores) for ranking in rankings)


def check_query(rankings: Sequence[Ranking]) -> Query:
    """Return the query of the rankings; ValueError if there is none, or there are several."""
    if not rankings:
        raise ArgumentError("there is no list to fuse")
    query = rankings[0].query
    for ranking in rankings[1:]:
        if ranking.query != query:
            raise ArgumentError(
                f"lists to fuse are of different queries: {ranking.query.qid!r} and {query.qid!r}"
            )
    return query


def check_weights(weights: Sequence[float], lists: int) -> None:
    """ValueError unless there is a list, and a weight for each."""
    if not lists:
        raise ArgumentError("there is no list to fuse")
    if len(weights) != lists:
        raise ArgumentError(f"{count_noun(len(weights), 'weight')} for {lists} lists")


def check_k(k: float) -> None:
    """ValueError unless ``k`` is one of reciprocal ranks."""
    if not 0 <= k < math.inf:
        raise ArgumentError(f"k must be a number of at least 0, got {k!r}")


def shares(scores: Scores) -> Scores:
    """The softmax: exp(score), divided by the sum of all; what is added to every score changes nothing."""
    if not len(scores):
        return scores
    with np.errstate(over="ignore"):  # further below than the widest number is no share, exp(-inf)
        powers = np.exp(scores - scores.max())
    result: Scores = powers / powers.sum()
    return result


def sigmoid(logits: Scores) -> Scores:
    """1 / (1 + exp(-logit)): with one logit a probability, with the difference of two that of the softmax."""
    small = np.exp(-np.abs(logits))  # between 0 and 1: nothing overflows
    return np.where(logits >= 0, 1.0, small) / (1.0 + small)
