"""Re-ranking accuracy by depth: what a re-ranker makes of the first n of a first stage.

That is figure 1b and table 2 of Zhan et al. 2020 (RepBERT).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from telerank.evaluate.measures import Evaluation, measure
from telerank.types import Progress, Qrels, Ranking, silent

Reranker: TypeAlias = Callable[[Iterable[Ranking]], Iterable[Ranking]]
"""A re-ranker stage, or anything else that scores the documents of rankings anew."""


@dataclass(frozen=True, eq=False)
class ByDepth:
    """Evaluations of the re-ranked lists, one for each of ``depths``.

    ``unscored`` of ``candidates`` (pairs of a query and a document) got no score from the re-ranker: they
    stay below those that did, in the order of the first stage.
    """

    depths: tuple[int, ...]
    evaluations: tuple[Evaluation, ...]
    candidates: int
    unscored: int

    def of(self, name: str) -> tuple[float, ...]:
        """The means of a measure, depth by depth."""
        return tuple(one.mean[name] for one in self.evaluations)


def reranked_by_depth(
    rankings: Iterable[Ranking],
    reranker: Reranker,
    qrels: Qrels,
    measures: Sequence[str] | str,
    depths: Sequence[int],
    *,
    progress: Progress = silent,
) -> ByDepth:
    """Re-rank the first n of each list, for each n of ``depths``, and measure.

    Each candidate is scored once, among those of the greatest depth: the re-ranker must score a document
    by itself, whatever stands beside it. What stands below n in the first stage is not in the list of n.

    Raises
    ------
    MeasureError
        where a name is not a measure's.
    ValueError
        where there is no depth, one is below 1, or the re-ranker answers other queries than it was asked.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be 1 or more, got {list(depths)}")
    first = [ranking.cut(max(depths)) for ranking in rankings if ranking.query.qid in qrels]
    scores = []
    for done, (asked, found) in enumerate(zip(first, reranker(first), strict=True), 1):
        if asked.query.qid != found.query.qid:
            raise ValueError(f"asked for query {asked.query.qid}, the re-ranker answered {found.query.qid}")
        scores.append(dict(found))
        progress("re-ranking", done, len(first))
    evaluations = tuple(
        measure(map(reordered, (one.cut(depth) for one in first), scores), qrels, measures)
        for depth in depths
    )
    pairs = list(zip(first, scores, strict=True))
    unscored = sum(docno not in known for one, known in pairs for docno in one.docnos)
    return ByDepth(tuple(depths), evaluations, sum(map(len, first)), unscored)


def reordered(ranking: Ranking, scores: Mapping[str, float]) -> Ranking:
    """The documents of a ranking by these scores; those without one below, in the order they had.

    The new scores are 1 / rank: what has no score cannot have one between others.
    """
    known = [docno for docno in ranking.docnos if docno in scores]
    best_first = Ranking.ranked(ranking.query, known, [scores[docno] for docno in known]).docnos
    docnos = (*best_first, *(docno for docno in ranking.docnos if docno not in scores))
    return Ranking(ranking.query, docnos, (1.0 / np.arange(1, len(docnos) + 1)).astype(np.float32))


def scored_by(run: Iterable[Ranking]) -> Reranker:
    """The re-ranker whose scores a run holds: for each query, documents and their scores.

    It is read into memory. A candidate that the run lacks gets no score.
    """
    known = {ranking.query.qid: dict(ranking) for ranking in run}

    def rerank(rankings: Iterable[Ranking]) -> Iterator[Ranking]:
        for ranking in rankings:
            scores = known.get(ranking.query.qid, {})
            docnos = [docno for docno in ranking.docnos if docno in scores]
            yield Ranking.ranked(ranking.query, docnos, [scores[docno] for docno in docnos])

    return rerank
