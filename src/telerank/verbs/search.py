"""Searching an index with a pipeline; saving pipelines with the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from telerank.computing import Count
from telerank.corpus import in_memory
from telerank.corpus.collection import CandidatePool, Collection
from telerank.errors import ArgumentTypeError, CollectionError
from telerank.pipelines.functions import pipeline
from telerank.pipelines.run_files import LazyRun
from telerank.retrieval.index import Index
from telerank.show.progress import show_progress
from telerank.stage import Stage, change_stages, require_first, walk_stages
from telerank.syntax.parser import Syntax
from telerank.syntax.synonyms import SynonymTerms, WithSynonyms
from telerank.types import ProgressSetting, Query, Ranking
from telerank.verbs.judge import describe_judged

# A collection or its path, a query, or queries of any shape (:mod:`telerank.corpus.in_memory`).
Queries: TypeAlias = Collection | str | Path | Query | Mapping[str, str] | Iterable[Any] | Any
_BATCH = 64  # queries answered at a time


def search(
    index: Index | str | Path,
    queries: Queries,
    model: Stage | str | None = None,
    *,
    split: str | None = None,
    where: str | None = None,
    syntax: Syntax = "none",
    synonyms: str | Path | None = None,
    k: Count = 1000,
    threads: Count = 1,
    progress: ProgressSetting = None,
) -> LazyRun:
    """Rank the documents of an index for queries: those of a collection's split, or in memory.

    ``queries`` are a collection or its path, one query as a text, or several as
    :func:`telerank.corpus.in_memory.read_queries` reads them: a list, a dict of texts by qid, a data frame.
    ``model`` is a pipeline or its text, by default ``bm25``, or ``dense`` of a folder of vectors;
    ``pool(NAME)`` in it are candidate lists of the collection. ``where`` is a filter of documents by their
    columns (:mod:`telerank.columns.filters`), such as ``type == "fiche"``, within which it searches. In
    the ``simple`` syntax (:mod:`telerank.syntax.parser`) queries may have phrases, operators and columns.
    ``synonyms`` is a file (:mod:`telerank.syntax.synonyms`) that searches of words read. ``k`` documents are
    kept for each query. ``threads`` answer the queries of first stages. The rankings are
    computed when they are read or saved.

    >>> tr.search("idx", "scifact", "bm25 % 100 >> rerank(my-reranker) % 10", split="test").save("test.run")

    Raises
    ------
    ExpressionError
        If the text of the pipeline cannot be read.
    FilterError
        If the filter cannot be read, or a column of it is unknown or of another kind.
    CollectionError
        If there is no such collection or split, it has no query, or a qid comes twice.
    """
    opened = Index(index) if isinstance(index, str | Path) else index
    queries = open_queries(queries)
    source, query_list = read_queries(queries, split)
    pool = partial(queries.pool, split=split) if isinstance(queries, Collection) else None
    text = model or opened.default_pipeline
    stage = require_first(text if isinstance(text, Stage) else pipeline(text, opened, pool=pool))
    if synonyms is not None:
        stage = WithSynonyms(stage, SynonymTerms.read(synonyms))
    if syntax == "simple":
        stage = opened.simple(stage)
    if where is not None:
        stage = stage.where(where, opened.docs if opened.has_texts else None)
    stage %= k
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


def open_queries(queries: Queries) -> Collection | list[Query]:
    """The collection of a path, or the queries of any shape; a text that names no collection is a query.

    Raises
    ------
    CollectionError
        If a text is a path, or a single word, and there is no such collection.
    ArgumentTypeError
        If they are of another shape.
    """
    if isinstance(queries, Collection):
        return queries
    if isinstance(queries, Index | Stage):
        raise ArgumentTypeError(f"queries: expected a dict, a list or a data frame, got {queries!r:.60}")
    if not isinstance(queries, str | Path):
        return in_memory.read_queries([queries] if isinstance(queries, Query) else queries)
    from telerank.corpus.formats import open_collection

    try:
        return open_collection(queries)
    except CollectionError as error:
        if isinstance(queries, Path) or not queries.strip() or Path(queries).exists():
            raise
        if len(queries.split()) == 1:
            error.add_note(f"a query of one word is given in a list: [{queries!r}]")
            raise
        return in_memory.read_queries([queries])


def read_queries(queries: Collection | list[Query], split: str | None) -> tuple[str, list[Query]]:
    """The name of what has the queries, and the queries.

    Raises
    ------
    CollectionError
        If there is no such split, the collection has no query (a list in memory may be empty), a split is
        named of a list, or a qid comes twice.
    """
    if isinstance(queries, Collection):
        name, query_list = queries.name, list(queries.split_queries(split))
        if not query_list:
            raise CollectionError(f"{name} has no query")
    elif split is not None:
        raise CollectionError(f"queries in memory have no split {split!r}")
    else:
        name, query_list = "in memory", queries
    qid, count = next(iter(Counter(query.qid for query in query_list).most_common(1)), ("", 0))
    if count > 1:
        raise CollectionError(f"queries {name}: query {qid} comes twice")
    return name, query_list
