"""Searching an index with a pipeline; saving pipelines with the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from telerank.corpus.collection import CandidatePool, Collection
from telerank.errors import CollectionError
from telerank.pipelines.functions import pipeline
from telerank.pipelines.run_files import LazyRun
from telerank.retrieval.index import Index
from telerank.show.progress import show_progress
from telerank.stage import Stage, change_stages, walk_stages
from telerank.types import ProgressSetting, Query, Ranking
from telerank.verbs.judge import describe_judged

_BATCH = 64  # queries answered at a time


def search(
    index: Index | str | Path,
    queries: Collection | str | Path | Iterable[Query],
    model: Stage | str | None = None,
    *,
    split: str | None = None,
    k: int = 1000,
    threads: int = 1,
    progress: ProgressSetting = None,
) -> LazyRun:
    """Rank the documents of an index for queries: those of a collection's split, or in memory.

    ``model`` is a pipeline or its text, by default ``bm25``, or ``dense`` of a folder of vectors;
    ``pool(NAME)`` in it are candidate lists of the collection. ``k`` documents are kept for each query.
    ``threads`` answer the queries of first stages. The rankings are computed when they are read or saved.

    >>> tr.search("idx", "scifact", "bm25 % 100 >> rerank(my-reranker) % 10", split="test").save("test.run")

    Raises
    ------
    ExpressionError
        If the text of the pipeline cannot be read.
    CollectionError
        If there is no such collection or split, it has no query, or a qid comes twice.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    queries = open_queries(queries)
    source, query_list = read_queries(queries, split)
    pool = partial(queries.pool, split=split) if isinstance(queries, Collection) else None
    text = model or opened.default_pipeline
    stage = (text if isinstance(text, Stage) else pipeline(text, opened, pool=pool)) % k
    batched = change_stages(stage, lambda part: part.in_batches(_BATCH, threads))

    def compute() -> Iterator[Ranking]:
        describe_queries()  # what is wrong with the judgments shows before anything is computed
        with show_progress(progress, len(query_list)) as shown:
            for number, ranking in enumerate(batched.run(query_list), 1):
                shown("searching", number, len(query_list))
                yield ranking

    def settings() -> dict[str, object]:
        sources = {name: value for part in walk_stages(stage) for name, value in part.sources.items()}
        remarks = {"remarks": lines} if (lines := describe()) else {}
        return {"pipeline": stage.text, "queries": source, "split": split, "sources": sources, **remarks}

    def describe() -> list[str]:
        return [*batched.all_remarks, *describe_queries()]

    @cache
    def describe_queries() -> list[str]:
        if not isinstance(queries, Collection):
            return []
        has_lists = any(isinstance(part, CandidatePool) for part in walk_stages(stage))
        notices = [] if has_lists or not queries.search_notice else [queries.search_notice]
        return [*describe_judged(opened, queries, split), *notices]

    return LazyRun(compute, settings, describe)


def open_queries(queries: Collection | str | Path | Iterable[Query]) -> Collection | Iterable[Query]:
    """The collection of a path; other queries as they are."""
    if not isinstance(queries, str | Path):
        return queries
    from telerank.corpus.formats import open_collection

    return open_collection(queries)


def read_queries(queries: Collection | Iterable[Query], split: str | None) -> tuple[str, list[Query]]:
    """The name of what has the queries, and the queries.

    Raises
    ------
    CollectionError
        If there is no such collection or split, it has no query (a list in memory may be empty), or a qid
        comes twice.
    """
    if isinstance(queries, Collection):
        name, query_list = queries.name, list(queries.split_queries(split))
        if not query_list:
            raise CollectionError(f"{name} has no query")
    else:
        name, query_list = "in memory", list(queries)
    qid, count = next(iter(Counter(query.qid for query in query_list).most_common(1)), ("", 0))
    if count > 1:
        raise CollectionError(f"queries {name}: query {qid} comes twice")
    return name, query_list
