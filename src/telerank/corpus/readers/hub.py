"""Collections of the Hugging Face hub in the layout of MTEB's retrieval tasks, such as ``mteb/scifact``.

A dataset has the subsets ``corpus`` (``_id`` or ``id``, ``title``, ``text``), ``queries`` (``_id`` or ``id``,
``text``) and ``default`` or ``qrels`` (``query-id``, ``corpus-id``, ``score``), whose splits are those of the
collection. Tasks of several languages or parts have them with a prefix, which follows the name:
``mteb/MintakaRetrieval/fr``. The package ``datasets`` (extra ``hub``) downloads them, and reads files of data
alone: no program of a dataset is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from telerank.corpus.collection import Collection
from telerank.errors import CollectionError, MissingExtra, shorten
from telerank.types import Doc, Qrel, Query

HUB = "hub"
PREFIX = "mteb/"
"""What the names of these datasets begin with."""
_KINDS = ("corpus", "queries", "qrels")
_REASON = 200  # characters of an error of the package


@dataclass(frozen=True)
class HubDataset:
    """A dataset ``repository``, whose ``subsets`` are named by kind; ``package`` reads it."""

    name: str
    repository: str
    subsets: Mapping[str, str]
    package: ModuleType

    def splits(self, kind: str) -> list[str]:
        """The splits of a subset."""
        return [
            *call_package(
                self.name, self.package.get_dataset_split_names, self.repository, self.subsets[kind]
            )
        ]

    def rows(self, kind: str, split: str) -> Iterator[Mapping[str, Any]]:
        """The records of a split, as they are downloaded."""
        load = partial(self.package.load_dataset, streaming=True)
        rows = iter(call_package(self.name, load, self.repository, self.subsets[kind], split=split))
        end = object()
        while (row := call_package(self.name, next, rows, end)) is not end:
            yield row

    def docs(self) -> Iterator[Doc]:
        for split in self.splits("corpus"):
            for row in self.rows("corpus", split):
                yield Doc(self.identify(row), row.get("text") or "", row.get("title") or "")

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that are judged in a split."""
        judged = {qrel.qid for qrel in self.qrels(split)}
        for part in self.splits("queries"):
            for row in self.rows("queries", part):
                if (qid := self.identify(row)) in judged:
                    yield Query(qid, row["text"])

    def qrels(self, split: str) -> Iterator[Qrel]:
        for row in self.rows("qrels", split):
            if not {"query-id", "corpus-id", "score"} <= row.keys():
                raise CollectionError(f"{self.name}: expected query-id, corpus-id and score, got {[*row]}")
            yield Qrel(str(row["query-id"]), str(row["corpus-id"]), int(row["score"]))

    def identify(self, row: Mapping[str, Any]) -> str:
        """The id of a document or query."""
        if "_id" not in row and "id" not in row:
            raise CollectionError(f"{self.name}: expected the column _id or id, got {[*row]}")
        return str(row["_id"] if "_id" in row else row["id"])


def open_hub(name: str, package: ModuleType | None = None) -> Collection:
    """Open a dataset of the hub; ``package`` replaces ``datasets`` in tests.

    What cannot be downloaded later raises CollectionError, when the records are read.

    Raises
    ------
    CollectionError
        If there is no such dataset, it cannot be downloaded, or it has another layout.
    MissingExtra
        If ``datasets`` is not installed.
    """
    if package is None:
        try:
            package = import_module("datasets")
        except ImportError as error:
            raise MissingExtra("datasets", HUB) from error
    user, task, *part = name.split("/")
    repository, prefix = f"{user}/{task}", f"{'-'.join(part)}-" if part else ""
    there = call_package(name, package.get_dataset_config_names, repository)
    subsets = {kind: f"{prefix}{kind}" for kind in _KINDS}
    if not prefix and "qrels" not in there:
        subsets["qrels"] = "default"
    if missing := [subset for subset in subsets.values() if subset not in there]:
        reason = shorten(", ".join(there), _REASON)
        raise CollectionError(
            f"{name}: no retrieval task of mteb: it has no subset {missing[0]!r} among {reason}"
        )
    dataset = HubDataset(name, repository, subsets, package)
    splits = dataset.splits("qrels")
    return Collection(
        name,
        HUB,
        dataset.docs,
        {split: partial(dataset.queries, split) for split in splits},
        {split: partial(dataset.qrels, split) for split in splits},
        licence="as its page on the hub states it",
        source=f"https://huggingface.co/datasets/{repository}",
    )


def call_package(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function of the package gives; CollectionError if it cannot download or read."""
    try:
        return function(*arguments, **options)
    except Exception as error:  # of HTTP, of files and of the package's own
        reason = shorten(" ".join(str(error).split()), _REASON)
        what = f"datasets cannot download or read it: {type(error).__name__}: {reason}"
        raise CollectionError(f"{name}: {what}") from error
