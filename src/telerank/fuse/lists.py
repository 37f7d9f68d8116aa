"""What the fusions share: lists of one query, stages side by side, a document's place in a list."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from telerank.stage import Stage
from telerank.types import Explanation, Query, Ranking


def shared_query(rankings: Sequence[Ranking]) -> Query:
    """The query that all of these answer.

    Raises
    ------
    ValueError
        where there is no ranking, or they answer different queries.
    """
    if not rankings:
        raise ValueError("there is no list to fuse")
    query = rankings[0].query
    for ranking in rankings[1:]:
        if ranking.query != query:
            raise ValueError(f"lists to fuse disagree: query {ranking.query.qid!r} beside {query.qid!r}")
    return query


def check_stages(stages: Sequence[Stage]) -> None:
    if not stages:
        raise ValueError("there is no stage to fuse")


def side_by_side(stages: Sequence[Stage], stream: Iterable[Ranking]) -> Iterator[tuple[Ranking, ...]]:
    """What each stage answers, query by query; they read the same stream."""
    copies = itertools.tee(stream, len(stages))
    return zip(*(stage(copy) for stage, copy in zip(stages, copies, strict=True)), strict=True)


def rank_in(ranking: Ranking, docno: str) -> int | None:
    """The document's rank, from 1; none where the list lacks it."""
    return ranking.docnos.index(docno) + 1 if docno in ranking.docnos else None


def placed(stage: Stage, query: Query, docno: str, rank: int | None, value: float) -> Explanation:
    """What a document gets from a list for its rank there."""
    if rank is None:
        return Explanation(value, "not in this list")
    return Explanation(value, f"rank {rank}", (stage.explain(query, docno),))
