"""Collections by the ids of ``ir_datasets`` (an extra): ``beir/scifact/test``, ``msmarco-passage/dev/small``.

An id with qrels is one split, named by the end of the id (``test``). An id without qrels has a split for each
id below it that has the same documents and qrels or queries (``beir/scifact`` has ``train`` and ``test``,
``msmarco-passage`` has ``dev/small``). ``ir_datasets`` downloads files when their first record is read, and
reports it. Scored documents are the pool ``SPLIT/scoreddocs``.

Source and licence are those stated by ``ir_datasets`` for each id (MacAvaney et al., Simplified Data
Wrangling with ir_datasets, SIGIR 2021).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from telerank.corpus.collection import Collection
from telerank.corpus.reading import Record
from telerank.errors import CollectionError, MissingExtra, shorten
from telerank.types import Doc, Qrel, Query, Ranking

IR_DATASETS = "ir_datasets"
"""The format's name for collections that are opened by id."""
_ID = re.compile(r"[a-z0-9][\w.-]*(?:/[\w.-]+)*")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]*$|/\.\.?/")  # some ids end in a version: argsme/1.0
_REASON = 200  # characters of an error of the package


def has_form_of_id(name: str) -> bool:
    """Whether a text can be an id by its form, as ``docs.jsonl`` and ``./docs`` cannot."""
    return bool(_ID.fullmatch(name)) and not _SUFFIX.search(name)


def open_id(name: str, package: ModuleType | None = None) -> Collection:
    """Open the collection of an id; ``package`` replaces ``ir_datasets`` in tests.

    What cannot be downloaded or read raises CollectionError, when the records are read.
    """
    package = package or _import_package()
    try:
        dataset = package.load(name)
    except KeyError as error:
        raise CollectionError(f"{name}: no such file or folder, and no such ir_datasets id") from error
    if not dataset.has_docs():
        raise CollectionError(f"{name}: this ir_datasets id has no documents; name the id above it")
    splits = _splits(package, name, dataset)
    return Collection(
        name,
        IR_DATASETS,
        partial(_read, _docs, name, dataset),
        {split: partial(_read, _queries, name, part) for split, part in splits.items() if part.has_queries()},
        {split: partial(_read, _qrels, name, part) for split, part in splits.items() if part.has_qrels()},
        pools={
            f"{split}/scoreddocs": partial(_read, _pool, name, part)
            for split, part in splits.items()
            if part.has_scoreddocs() and part.has_queries()
        },
        size=_size(dataset),
        licence="as ir_datasets names it",
        source=f"ir_datasets id {name}",
    )


def _import_package() -> ModuleType:
    try:
        import ir_datasets
    except ImportError as error:
        raise MissingExtra("ir_datasets", "ir-datasets") from error
    package: ModuleType = ir_datasets
    return package


def _splits(package: ModuleType, name: str, dataset: Any) -> dict[str, Any]:
    if not dataset.has_qrels():
        ids = [other for other in package.registry if other.startswith(f"{name}/")]
        below = {other.removeprefix(f"{name}/"): package.load(other) for other in ids}
        docs = dataset.docs_handler()
        splits = {
            split: part
            for split, part in below.items()
            if part.has_docs() and part.docs_handler() is docs and (part.has_queries() or part.has_qrels())
        }
        if splits:
            return splits
    return {name.rpartition("/")[2]: dataset} if dataset.has_queries() or dataset.has_qrels() else {}


def _read(read: Callable[[Any], Iterator[Record]], name: str, dataset: Any) -> Iterator[Record]:
    """The records of a dataset; CollectionError if its files cannot be downloaded or read."""
    try:
        yield from read(dataset)
    except (OSError, RuntimeError) as error:
        match error.args:
            case [_, [*_, [_, Exception() as cause]]]:  # the error of each source that was tried
                pass
            case _:
                cause = error
        reason = shorten(" ".join(str(cause).split()), _REASON)
        what = f"ir_datasets cannot download or read its files: {type(cause).__name__}: {reason}"
        raise CollectionError(f"{name}: {what}") from error


def _docs(dataset: Any) -> Iterator[Doc]:
    for doc in dataset.docs_iter():
        fields = doc._fields
        text = next(
            (value for key in ("text", "body") if isinstance(value := getattr(doc, key, None), str)), None
        )
        if text is None:  # other fields, which the package joins, title included
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
    for scored_doc in dataset.scoreddocs_iter():
        docnos, scores = scored.setdefault(scored_doc.query_id, ([], []))
        docnos.append(scored_doc.doc_id)
        scores.append(scored_doc.score)
    for query in _queries(dataset):
        if query.qid in scored:
            yield Ranking.ranked(query, *scored[query.qid])


def _size(dataset: Any) -> int | None:
    """The number of documents that the package states; counting them could start a download."""
    count = dataset.docs_metadata().get("count")
    return count if isinstance(count, int) else None
