"""Ids of ir_datasets: against a stand-in at the seam, and against the package itself where it is installed."""

from __future__ import annotations

import logging
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from commands import ok, refusal
from telerank.corpus.formats import has_form_of_id, open_collection, open_id
from telerank.errors import CollectionError, MissingExtra
from telerank.types import Doc, Qrel, Query, Ranking


class Text(NamedTuple):
    doc_id: str
    text: str
    title: str | None = None
    url: str = ""


class Parts(NamedTuple):
    doc_id: str
    heading: str
    body: bytes

    def default_text(self):
        return f"{self.heading}: {self.body.decode()}"


class Topic(NamedTuple):
    query_id: str
    title: str

    def default_text(self):
        return self.title


class Judgment(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str = "0"


class Scored(NamedTuple):
    query_id: str
    doc_id: str
    score: float


class Dataset:
    """What of the package's datasets is used: ``has_docs``, ``docs_iter`` and so on."""

    def __init__(self, docs=None, queries=None, qrels=None, scoreddocs=None):
        self.docs = docs
        for name, records in zip(KINDS, (docs, queries, qrels, scoreddocs), strict=True):
            setattr(self, f"has_{name}", lambda records=records: records is not None)
            setattr(self, f"{name}_iter", lambda records=records: iter(records))

    def docs_handler(self):
        return self.docs

    def docs_metadata(self):
        return {"count": len(self.docs)} if len(self.docs) > 1 else {}


KINDS = ("docs", "queries", "qrels", "scoreddocs")


DOCS = [Text("a", "one", "Title", "http://a"), Parts("b", "Head", b"two"), Text("c", "three")]
QUERIES = [Topic("1", "first"), Topic("2", "second")]


def package(**datasets) -> SimpleNamespace:
    named = {name.replace("__", "/"): dataset for name, dataset in datasets.items()}
    return SimpleNamespace(load=named.__getitem__, registry=named)


def test_an_id_with_qrels_is_the_split_at_its_end():
    one = Dataset(DOCS, QUERIES, [Judgment("1", "b", 2)])
    collection = open_id("set/test", package(set__test=one))
    assert (collection.format, collection.splits, collection.size) == ("ir_datasets", ("test",), 3)
    assert list(collection.docs()) == [
        Doc("a", "one", "Title", "http://a"),
        Doc("b", "Head: two", columns={"heading": "Head"}),
        Doc("c", "three"),
    ]
    assert list(collection.split_queries()) == [Query("1", "first"), Query("2", "second")]
    assert list(collection.split_qrels()) == [Qrel("1", "b", 2)]


def test_an_id_of_documents_has_the_splits_below_it_or_is_one():
    ids = package(
        set=Dataset(DOCS),
        set__train=Dataset(DOCS, QUERIES, []),
        set__dev__small=Dataset(DOCS, QUERIES, []),
        set__v2=Dataset(DOCS[:1], QUERIES, []),
        settle__x=Dataset(DOCS, QUERIES, []),
    )
    assert open_id("set", ids).splits == ("train", "dev/small")
    collection = open_id("set", package(set=Dataset(DOCS[:1], QUERIES)))
    assert (collection.splits, collection.size) == (("set",), None)
    assert list(collection.split_queries())[1] == Query("2", "second")


def test_scored_documents_are_a_pool():
    scored = [Scored("2", "a", 1.5), Scored("1", "c", 1), Scored("2", "b", 2.5)]
    collection = open_id("set/dev", package(set__dev=Dataset(DOCS, QUERIES, [], scored)))
    assert list(collection.pools["dev/scoreddocs"]()) == [
        Ranking(Query("1", "first"), ("c",), [1]),
        Ranking(Query("2", "second"), ("b", "a"), [2.5, 1.5]),
    ]


def test_an_unknown_id_and_one_without_documents_are_errors():
    with pytest.raises(CollectionError, match="nothing: no such file or folder, and no such ir_datasets id"):
        open_id("nothing", package())
    with pytest.raises(CollectionError, match="set: this ir_datasets id has no documents"):
        open_id("set", package(set=Dataset(None, QUERIES)))


def test_without_the_package_an_id_asks_for_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    extra = r"pip install 'telerank\[ir-datasets\]'"
    said = f"test: no such file or folder; if it is an ir_datasets id: {extra}"
    with pytest.raises(CollectionError, match=said):
        open_collection("beir/scifact/test")
    with pytest.raises(MissingExtra, match=extra):
        open_collection("beir/scifact/test", format="ir_datasets")


@pytest.mark.parametrize("installed", [True, False])
def test_what_can_only_be_a_path_is_a_missing_file(monkeypatch, tmp_path, installed):
    monkeypatch.chdir(tmp_path)
    if not installed:
        monkeypatch.setitem(sys.modules, "ir_datasets", None)
    paths = ("nosuch/docs.jsonl", "docs.tsv.gz", "./scifcat", "../data/scifact", "/data/scifact", "my docs")
    for path in paths:
        with pytest.raises(CollectionError) as refused:
            open_collection(path)
        assert str(refused.value) == f"{path}: no such file or folder"


def test_a_failed_download_is_one_line(caplog):
    logger = logging.getLogger("ir_datasets")  # the package's own

    def no_docs():
        logger.warning("Download failed")
        errors = [("first mirror", OSError("no route")), ("second", ConnectionError("refused\nby the host"))]
        raise RuntimeError("All download sources failed", errors)

    def no_queries():
        raise ConnectionError("timed out")

    offline = Dataset(DOCS, QUERIES)
    offline.docs_iter, offline.queries_iter = no_docs, no_queries
    collection = open_id("set", package(set=offline))
    what = "set: ir_datasets cannot download or read its files: ConnectionError"
    with pytest.raises(CollectionError) as refused:
        list(collection.docs())
    assert str(refused.value) == f"{what}: 'refused by the host'"
    with pytest.raises(CollectionError, match=f"{what}: 'timed out'"):
        list(collection.split_queries())
    assert not caplog.records
    logger.warning("said elsewhere")
    assert len(caplog.records) == 1


def test_the_command_writes_a_beir_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    judged = Dataset(DOCS, QUERIES, [Judgment("1", "b", 2)])
    ids = package(my__marco=Dataset(DOCS), my__marco__dev__small=judged)
    ids.__spec__ = ModuleSpec("ir_datasets", None)
    monkeypatch.setitem(sys.modules, "ir_datasets", ids)
    assert "3 documents" in ok("data get my/marco").stdout
    assert [*open_collection("my-marco").split_qrels("dev-small")] == [Qrel("1", "b", 2)]

    def no_docs():
        raise ConnectionError("no route\nto the host")

    judged.docs_iter = no_docs
    said = refusal("data get my/marco/dev/small")
    assert "ir_datasets cannot download or read its files: ConnectionError: 'no route to the host'" in said
    assert [path.name for path in tmp_path.iterdir()] == ["my-marco"]


def test_the_package_itself_is_read(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets", reason="the extra ir-datasets is not installed")
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    for name, text in (("docs", "1\tone\n2\ttwo\n"), ("queries", "q\twhich\n"), ("qrels", "q 0 2 1\n")):
        (tmp_path / name).write_text(text)
    docs = TsvDocs(LocalDownload(tmp_path / "docs"))
    queries = TsvQueries(LocalDownload(tmp_path / "queries"))
    qrels = TrecQrels(LocalDownload(tmp_path / "qrels"), {1: "relevant"})
    ir_datasets.registry.register("telerank-example", ir_datasets.Dataset(docs))
    ir_datasets.registry.register("telerank-example/test", ir_datasets.Dataset(docs, queries, qrels))
    for name in ("telerank-example", "telerank-example/test"):
        collection = open_collection(name)
        assert collection.splits == ("test",)
        assert list(collection.docs()) == [Doc("1", "one"), Doc("2", "two")]
        assert list(collection.split_queries()) == [Query("q", "which")]
        assert list(collection.split_qrels()) == [Qrel("q", "2", 1)]
    assert open_collection("beir/scifact").splits == ("test", "train")
    assert open_collection("msmarco-passage").size == 8_841_823
    assert all(map(has_form_of_id, ir_datasets.registry))
