"""Read several runs at once: the rankings of a query in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from telerank.types import Ranking


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
                raise ValueError(f"query {qid} occurs twice in run {i + 1}")
            seen[i].add(qid)
            lists = waiting.setdefault(qid, {})
            lists[i] = ranking
            if len(lists) == len(runs):
                yield _complete(waiting.pop(qid), len(runs))
    for lists in waiting.values():
        yield _complete(lists, len(runs))


def _complete(lists: dict[int, Ranking], runs: int) -> tuple[Ranking, ...]:
    queries = [lists[i].query for i in sorted(lists)]
    query = next((query for query in queries if query.text), queries[0])
    rankings = (lists.get(i, Ranking(query)) for i in range(runs))
    return tuple(Ranking.presorted(query, ranking.docnos, ranking.scores) for ranking in rankings)
