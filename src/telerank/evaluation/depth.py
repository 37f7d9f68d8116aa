"""Lists cut at several depths: how well they are re-ranked, and how they agree with a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from telerank.errors import ArgumentError
from telerank.evaluation.measures import Evaluation, MeasureNames, measure
from telerank.types import Progress, Qrels, Ranking, silent

# A re-ranker stage, or any other function that re-scores the documents of rankings.
Reranker: TypeAlias = Callable[[Iterable[Ranking]], Iterable[Ranking]]
# The documents of each query that other systems' lists are compared with, by qid.
Candidates: TypeAlias = Mapping[str, frozenset[str]]


@dataclass(frozen=True, eq=False)
class RerankingByDepth:
    """Evaluations of the re-ranked lists, one for each depth.

    ``candidates`` is the number of pairs of a query and a document; ``unscored`` of them got no score from
    the re-ranker and stay below the others, in the order of the first stage.
    """

    evaluations: tuple[Evaluation, ...]
    candidates: int
    unscored: int

    def of(self, name: str) -> tuple[float, ...]:
        """The mean of a measure at each depth."""
        return tuple(evaluation.mean[name] for evaluation in self.evaluations)


def measure_reranking(
    rankings: Iterable[Ranking],
    reranker: Reranker,
    qrels: Qrels,
    measures: MeasureNames,
    depths: Sequence[int],
    *,
    progress: Progress = silent,
) -> RerankingByDepth:
    """Re-rank and measure the first n documents of each list, for each n of ``depths``.

    This is figure 1b and table 2 of Zhan et al. 2020 (RepBERT). Each candidate of the greatest depth is
    scored once, so the re-ranker must score each document independently of the others. Documents below
    rank n are not in the list of depth n. Raises ValueError if a depth is below 1, there is none, or the
    re-ranker returns other queries than its input.
    """
    _check_depths(depths)
    first = [ranking.cut(max(depths)) for ranking in rankings if ranking.query.qid in qrels]
    scores = []
    for done, (before, after) in enumerate(zip(first, reranker(first), strict=True), 1):
        if before.query.qid != after.query.qid:
            raise ArgumentError(
                f"the re-ranker returned query {after.query.qid} instead of {before.query.qid}"
            )
        scores.append(dict(after))
        progress("re-ranking", done, len(first))
    evaluations = tuple(
        measure(map(reorder, (ranking.cut(depth) for ranking in first), scores), qrels, measures)
        for depth in depths
    )
    candidates = sum(map(len, first))
    scored = sum(len(known.keys() & ranking.docnos) for ranking, known in zip(first, scores, strict=True))
    return RerankingByDepth(evaluations, candidates, candidates - scored)


def reorder(ranking: Ranking, scores: Mapping[str, float]) -> Ranking:
    """Order the documents of a ranking by these scores; those without a score follow in their old order.

    The new scores are 1 / rank.
    """
    docnos = (*_select(ranking, scores).docnos, *(docno for docno in ranking.docnos if docno not in scores))
    return Ranking(ranking.query, docnos, 1.0 / np.arange(1, len(docnos) + 1))


def rerank_by_scores(score: Callable[[Ranking], Mapping[str, float]]) -> Reranker:
    """Make a re-ranker of a function that scores documents of a ranking; it leaves out the others."""

    def rerank(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        return (_select(ranking, score(ranking)) for ranking in rankings)

    return rerank


def rerank_by_run(run: Iterable[Ranking]) -> Reranker:
    """Make a re-ranker that takes its scores from a run, which is read into memory."""
    known = {ranking.query.qid: dict(ranking) for ranking in run}
    return rerank_by_scores(lambda ranking: known.get(ranking.query.qid, {}))


def _select(ranking: Ranking, scores: Mapping[str, float]) -> Ranking:
    docnos = [docno for docno in ranking.docnos if docno in scores]
    return Ranking.ranked(ranking.query, docnos, [scores[docno] for docno in docnos])


@dataclass(frozen=True)
class Consistency:
    """C(f, n): ``values`` holds the mean over ``queries`` queries for each n.

    ``unknown`` are queries of f without a list in the reference: they count 0. ``unanswered`` are queries
    of the reference without a document in f: they do not count.
    """

    values: tuple[float, ...]
    queries: int
    unknown: tuple[str, ...]
    unanswered: tuple[str, ...]


def read_candidates(rankings: Iterable[Ranking], depth: int = 1000) -> Candidates:
    """The first ``depth`` documents of each list; a query without documents is left out."""
    return {ranking.query.qid: frozenset(ranking.docnos[:depth]) for ranking in rankings if len(ranking)}


def measure_consistency(
    rankings: Iterable[Ranking], reference: Candidates, depths: Sequence[int]
) -> Consistency:
    """Compute the mean share of the first n documents that are candidates of the reference, for each n.

    A re-ranker trained on the candidates of one first stage may fail on those of another (Zhan et al. 2020,
    RepBERT, section 4.4.3, equation 5 and figure 2). The share in a list shorter than n is of its length.
    Raises ValueError if a depth is below 1, there is none, or no query has a document.
    """
    _check_depths(depths)
    sums, answered, unknown = np.zeros(len(depths)), set(), []
    for ranking in filter(len, rankings):
        qid = ranking.query.qid
        answered.add(qid)
        if qid in reference:
            shared = list(accumulate((docno in reference[qid] for docno in ranking.docnos), initial=0))
            retrieved = [min(depth, len(ranking)) for depth in depths]
            sums += [shared[n] / n for n in retrieved]
        else:
            unknown.append(qid)
    if not answered:
        raise ArgumentError("the run has no document")
    return Consistency(
        tuple((sums / len(answered)).tolist()),
        len(answered),
        tuple(unknown),
        tuple(qid for qid in reference if qid not in answered),
    )


def _check_depths(depths: Sequence[int]) -> None:
    if not depths or min(depths) < 1:
        raise ArgumentError(f"depths must be 1 or more, got {list(depths)}")
