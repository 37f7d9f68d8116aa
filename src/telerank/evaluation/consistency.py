"""The consistency factor: the share of a system's documents that are candidates of another system.

A re-ranker trained on the candidates of one first stage may fail on those of another (Zhan et al. 2020,
RepBERT, section 4.4.3, equation 5 and figure 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from telerank.types import Ranking


@dataclass(frozen=True)
class Consistency:
    """C(f, n): ``values`` holds, for each of ``depths``, the mean over ``queries`` queries.

    ``unknown`` are queries of f without a list in the reference: they count 0. ``unanswered`` are queries
    of the reference without a document in f: they do not count.
    """

    depths: tuple[int, ...]
    values: tuple[float, ...]
    queries: int
    unknown: tuple[str, ...]
    unanswered: tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """The candidates of each query that other systems' lists are compared with."""

    candidates: dict[str, frozenset[str]]

    @classmethod
    def of(cls, rankings: Iterable[Ranking], depth: int = 1000) -> Reference:
        """The first ``depth`` documents of each list; a query without documents is left out."""
        return cls({one.query.qid: frozenset(one.docnos[:depth]) for one in rankings if len(one)})


def measure_consistency(
    rankings: Iterable[Ranking], reference: Reference, depths: Sequence[int]
) -> Consistency:
    """Compute the mean share of the first n documents that are candidates of the reference, for each n.

    The share in a list shorter than n is of its length. Raises ValueError if a depth is below 1, there
    is none, or no query has a document.
    """
    if not depths or min(depths) < 1:
        raise ValueError(f"depths must be 1 or more, got {list(depths)}")
    sums, answered, unknown = [0.0] * len(depths), set(), []
    for ranking in rankings:
        if not len(ranking):
            continue
        qid = ranking.query.qid
        answered.add(qid)
        if qid not in reference.candidates:
            unknown.append(qid)
            continue
        shared = _count_shared(ranking, reference.candidates[qid])
        for i, depth in enumerate(depths):
            retrieved = min(depth, len(ranking))
            sums[i] += shared[retrieved] / retrieved
    if not answered:
        raise ValueError("the run has no document")
    means = tuple(total / len(answered) for total in sums)
    unanswered = tuple(qid for qid in reference.candidates if qid not in answered)
    return Consistency(tuple(depths), means, len(answered), tuple(unknown), unanswered)


def _count_shared(ranking: Ranking, candidates: frozenset[str]) -> list[int]:
    """The number of candidates among the first 0, 1, 2, … documents."""
    counts = [0]
    for docno in ranking.docnos:
        counts.append(counts[-1] + (docno in candidates))
    return counts
