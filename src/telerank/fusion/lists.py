"""Helpers of the fusions: check queries, run stages in parallel, find and explain a rank."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking


def check_query(rankings: Sequence[Ranking]) -> Query:
    """Return the query of the rankings; ValueError if there is none, or there are several."""
    if not rankings:
        raise ValueError("there is no list to fuse")
    query = rankings[0].query
    for ranking in rankings[1:]:
        if ranking.query != query:
            raise ValueError(
                f"lists to fuse are of different queries: {ranking.query.qid!r} and {query.qid!r}"
            )
    return query


def check_stages(stages: Sequence[Stage]) -> None:
    if not stages:
        raise ValueError("there is no stage to fuse")


def run_stages(stages: Sequence[Stage], stream: Iterable[Ranking]) -> Iterator[tuple[Ranking, ...]]:
    """Run each stage on the same stream: the rankings of all stages, query by query."""
    copies = itertools.tee(stream, len(stages))
    return zip(*(stage(copy) for stage, copy in zip(stages, copies, strict=True)), strict=True)


def find_rank(ranking: Ranking, docno: str) -> int | None:
    """The document's rank, from 1; None if it is not in the list."""
    return ranking.docnos.index(docno) + 1 if docno in ranking.docnos else None


def explain_rank(stage: Stage, query: Query, docno: str, rank: int | None, value: float) -> Explanation:
    """Explain what a document gets for its rank in the list of a stage."""
    if rank is None:
        return Explanation(value, "not in this list")
    return Explanation(value, f"rank {rank}", (stage.explain(query, docno),))
