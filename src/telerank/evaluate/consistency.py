"""The consistency factor: how much of what a system finds another has among its candidates.

A re-ranker that was trained on the candidates of one first stage meets others when it is given those of
another (Zhan et al. 2020, RepBERT, section 4.4.3, equation 5 and figure 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from telerank.types import Ranking


@dataclass(frozen=True)
class Consistency:
    """C(f, n): ``values`` has, for each of ``depths``, the mean over ``queries`` queries.

    ``unknown`` are queries of f that the reference has no list for: they count 0. Queries that f has no
    document for do not count: there is no share of nothing; ``unanswered`` are those of the reference.
    """

    depths: tuple[int, ...]
    values: tuple[float, ...]
    queries: int
    unknown: tuple[str, ...]
    unanswered: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """The candidates, at most ``depth`` a query, that others' lists are compared with."""

    candidates: dict[str, frozenset[str]]

    @classmethod
    def of(cls, rankings: Iterable[Ranking], depth: int = 1000) -> Reference:
        """The first ``depth`` of each list; a query without documents is one without a list."""
        return cls({one.query.qid: frozenset(one.docnos[:depth]) for one in rankings if len(one)})


def consistency(rankings: Iterable[Ranking], reference: Reference, depths: Sequence[int]) -> Consistency:
    """The mean share of the first n documents that are among the reference's, for each n of ``depths``.

    A list shorter than n counts with what it has.

    Raises
    ------
    ValueError
        where there is no depth, one is below 1, or no query has a document.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be 1 or more, got {list(depths)}")
    sums, asked, unknown = [0.0] * len(depths), set(), []
    for ranking in rankings:
        if not len(ranking):
            continue
        qid = ranking.query.qid
        asked.add(qid)
        if qid not in reference.candidates:
            unknown.append(qid)
            continue
        shared = _shared_so_far(ranking, reference.candidates[qid])
        for i, depth in enumerate(depths):
            retrieved = min(depth, len(ranking))
            sums[i] += shared[retrieved] / retrieved
    if not asked:
        raise ValueError("the run has no document: there is no share of nothing")
    means = tuple(one / len(asked) for one in sums)
    unanswered = tuple(qid for qid in reference.candidates if qid not in asked)
    return Consistency(tuple(depths), means, len(asked), tuple(unknown), unanswered)


def _shared_so_far(ranking: Ranking, candidates: frozenset[str]) -> list[int]:
    """How many of the first 0, 1, 2, … documents are candidates."""
    counts = [0]
    for docno in ranking.docnos:
        counts.append(counts[-1] + (docno in candidates))
    return counts
