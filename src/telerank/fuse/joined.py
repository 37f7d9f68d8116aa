"""Several runs read at once: the lists of a query side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from telerank.types import Query, Ranking


def joined(runs: Sequence[Iterable[Ranking]]) -> Iterator[tuple[Ranking, ...]]:
    """For each query of any run its list in each; an empty one where a run lacks the query.

    A query is given as soon as each run has come to it, so that runs that answer the same queries in
    the same order need not fit in memory; queries that a run lacks come last. Texts of queries need
    not agree (run files hold none): the first text there is stands.

    Raises
    ------
    ValueError
        where a query comes twice in a run.
    """
    streams = {i: iter(run) for i, run in enumerate(runs)}
    waiting: dict[str, dict[int, Ranking]] = {}  # lists by run, of queries that some run has not come to
    seen: list[set[str]] = [set() for _ in runs]
    while streams:
        for i, stream in list(streams.items()):
            ranking = next(stream, None)
            if ranking is None:
                del streams[i]
                continue
            qid = ranking.query.qid
            if qid in seen[i]:
                raise ValueError(f"query {qid} comes twice in run {i + 1}")
            seen[i].add(qid)
            lists = waiting.setdefault(qid, {})
            lists[i] = ranking
            if len(lists) == len(runs):
                yield _of_one_query(waiting.pop(qid), len(runs))
    for lists in waiting.values():
        yield _of_one_query(lists, len(runs))


def _of_one_query(lists: dict[int, Ranking], runs: int) -> tuple[Ranking, ...]:
    some = [lists[i].query for i in sorted(lists)]
    query = next((one for one in some if one.text), some[0])
    empty = Ranking(query)
    return tuple(_asked(lists[i], query) if i in lists else empty for i in range(runs))


def _asked(ranking: Ranking, query: Query) -> Ranking:
    return Ranking.presorted(query, ranking.docnos, ranking.scores)
