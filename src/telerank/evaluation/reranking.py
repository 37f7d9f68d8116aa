"""Re-ranking accuracy by depth: measure the first n of a first stage after re-ranking.

This is figure 1b and table 2 of Zhan et al. 2020 (RepBERT).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from telerank.evaluation.measures import Evaluation, measure
from telerank.types import Progress, Qrels, Ranking, silent

Reranker: TypeAlias = Callable[[Iterable[Ranking]], Iterable[Ranking]]
"""A re-ranker stage, or any other function that re-scores the documents of rankings."""


@dataclass(frozen=True, eq=False)
class RerankingByDepth:
    """Evaluations of the re-ranked lists, one for each of ``depths``.

    ``candidates`` is the number of pairs of a query and a document; ``unscored`` of them got no score from
    the re-ranker and stay below the others, in the order of the first stage.
    """

    depths: tuple[int, ...]
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
    measures: Sequence[str] | str,
    depths: Sequence[int],
    *,
    progress: Progress = silent,
) -> RerankingByDepth:
    """Re-rank and measure the first n documents of each list, for each n of ``depths``.

    Each candidate of the greatest depth is scored once, so the re-ranker must score each document
    independently of the others. Documents below rank n are not in the list of depth n. Raises ValueError
    if a depth is below 1, there is none, or the re-ranker returns other queries than its input.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be 1 or more, got {list(depths)}")
    first = [ranking.cut(max(depths)) for ranking in rankings if ranking.query.qid in qrels]
    scores = []
    for done, (before, after) in enumerate(zip(first, reranker(first), strict=True), 1):
        if before.query.qid != after.query.qid:
            raise ValueError(f"the re-ranker returned query {after.query.qid} instead of {before.query.qid}")
        scores.append(dict(after))
        progress("re-ranking", done, len(first))
    evaluations = tuple(
        measure(map(reorder, (ranking.cut(depth) for ranking in first), scores), qrels, measures)
        for depth in depths
    )
    pairs = list(zip(first, scores, strict=True))
    unscored = sum(docno not in known for ranking, known in pairs for docno in ranking.docnos)
    return RerankingByDepth(tuple(depths), evaluations, sum(map(len, first)), unscored)


def reorder(ranking: Ranking, scores: Mapping[str, float]) -> Ranking:
    """Order the documents of a ranking by these scores; those without a score follow in their old order.

    The new scores are 1 / rank.
    """
    known = [docno for docno in ranking.docnos if docno in scores]
    best_first = Ranking.ranked(ranking.query, known, [scores[docno] for docno in known]).docnos
    docnos = (*best_first, *(docno for docno in ranking.docnos if docno not in scores))
    return Ranking(ranking.query, docnos, (1.0 / np.arange(1, len(docnos) + 1)).astype(np.float32))


def rerank_by_run(run: Iterable[Ranking]) -> Reranker:
    """Make a re-ranker that takes its scores from a run.

    The run is read into memory. A document that is not in the run gets no score.
    """
    known = {ranking.query.qid: dict(ranking) for ranking in run}

    def rerank(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in rankings:
            scores = known.get(ranking.query.qid, {})
            docnos = [docno for docno in ranking.docnos if docno in scores]
            yield Ranking.ranked(ranking.query, docnos, [scores[docno] for docno in docnos])

    return rerank
