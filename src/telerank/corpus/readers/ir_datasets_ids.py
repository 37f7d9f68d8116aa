"""Collections by the ids of ``ir_datasets`` (an extra): ``beir/scifact/test``, ``msmarco-passage/dev/small``.

An id that has qrels is one split, named by the end of the id (``test``). An id without has a split for each
id below it with the same documents and with qrels or queries (``beir/scifact`` has ``train`` and ``test``,
``msmarco-passage`` has ``dev/small``). ``ir_datasets`` downloads what it is asked
for at the first record of it, and says so itself. Scored documents are the pool ``SPLIT/scoreddocs``.

Source and licence are those that ``ir_datasets`` names for each id (MacAvaney et al., Simplified Data
Wrangling with ir_datasets, SIGIR 2021).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, MissingExtra
from telerank.types import Doc, Qrel, Query, Ranking

IR_DATASETS = "ir_datasets"
"""The name of the format of a collection that stands in no folder but is named by an id."""


def open_id(name: str, package: ModuleType | None = None) -> Collection:
    """The collection of an id; ``package`` stands for ``ir_datasets`` in tests.

    Raises
    ------
    MissingExtra
        If ``ir_datasets`` is not installed.
    CollectionError
        If there is no such id, or it has no documents; or ``ir_datasets`` is not installed and the
        name looks like a path (the folder it would stand in is there).
    """
    package = package or _package(name)
    dataset = _load(package, name)
    if not dataset.has_docs():
        raise CollectionError(f"{name}: this ir_datasets id has no documents; name the id above it")
    splits = _splits(package, name, dataset)
    return Collection(
        name,
        IR_DATASETS,
        functools.partial(_docs, dataset),
        {split: functools.partial(_queries, one) for split, one in splits.items() if one.has_queries()},
        {split: functools.partial(_qrels, one) for split, one in splits.items() if one.has_qrels()},
        pools={
            f"{split}/scoreddocs": functools.partial(_pool, one)
            for split, one in splits.items()
            if one.has_scoreddocs() and one.has_queries()
        },
        size=_size(dataset),
        licence="as ir_datasets names it",
        source=f"ir_datasets id {name}",
    )


def _package(name: str) -> ModuleType:
    try:
        import ir_datasets
    except ImportError as error:
        if Path(name).parent.exists():  # so it looks like a path that was mistyped
            hint = "if it is an ir_datasets id: pip install 'telerank[ir-datasets]'"
            raise CollectionError(f"{name}: no such file or folder; {hint}") from error
        raise MissingExtra("ir_datasets", "ir-datasets") from error
    package: ModuleType = ir_datasets
    return package


def _load(package: ModuleType, name: str) -> Any:
    try:
        return package.load(name)
    except KeyError as error:
        raise CollectionError(f"{name}: no such file or folder, and no such ir_datasets id") from error


def _splits(package: ModuleType, name: str, dataset: Any) -> dict[str, Any]:
    if not dataset.has_qrels():
        ids = [one for one in package.registry if one.startswith(f"{name}/")]
        below = {one.removeprefix(f"{name}/"): package.load(one) for one in ids}
        docs = dataset.docs_handler()
        found = {
            split: one
            for split, one in below.items()
            if one.has_docs() and one.docs_handler() is docs and (one.has_queries() or one.has_qrels())
        }
        if found:
            return found
    return {name.rpartition("/")[2]: dataset} if dataset.has_queries() or dataset.has_qrels() else {}


def _docs(dataset: Any) -> Iterator[Doc]:
    for doc in dataset.docs_iter():
        fields = doc._fields
        text = next(
            (value for key in ("text", "body") if isinstance(value := getattr(doc, key, None), str)), None
        )
        if text is None:  # parts with names of their own: the package joins them, title included
            yield Doc(doc.doc_id, doc.default_text(), url=getattr(doc, "url", None) or "")
        else:
            title = doc.title if "title" in fields else ""
            yield Doc(doc.doc_id, text, title or "", getattr(doc, "url", None) or "")


def _queries(dataset: Any) -> Iterator[Query]:
    return (Query(query.query_id, query.default_text()) for query in dataset.queries_iter())


def _qrels(dataset: Any) -> Iterator[Qrel]:
    return (Qrel(qrel.query_id, qrel.doc_id, int(qrel.relevance)) for qrel in dataset.qrels_iter())


def _pool(dataset: Any) -> Iterator[Ranking]:
    scored: dict[str, tuple[list[str], list[float]]] = {}
    for one in dataset.scoreddocs_iter():
        docnos, scores = scored.setdefault(one.query_id, ([], []))
        docnos.append(one.doc_id)
        scores.append(one.score)
    for query in _queries(dataset):
        if query.qid in scored:
            yield Ranking.ranked(query, *scored[query.qid])


def _size(dataset: Any) -> int | None:
    """The number of documents that the package states; asking it to count could begin a download."""
    count = dataset.docs_metadata().get("count")
    return count if isinstance(count, int) else None
