"""Datasets of the hub: against a stand-in for the package, at its seam."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from commands import ok, refusal
from telerank.corpus.formats import open_collection
from telerank.corpus.readers.hub import open_hub
from telerank.errors import CollectionError, MissingExtra
from telerank.types import Doc, Qrel, Query

CORPUS = [{"_id": 1, "title": "Presses", "text": "the press"}, {"_id": "2", "title": None, "text": None}]
QUERIES = [{"_id": "a", "text": "press"}, {"_id": "b", "text": "bible"}, {"_id": "c", "text": "unjudged"}]
TEST = [{"query-id": "a", "corpus-id": 1, "score": 2.0}]
TRAIN = [{"query-id": "b", "corpus-id": "2", "score": 1}, {"query-id": "a", "corpus-id": "2", "score": 0}]
WHOLE = {
    "corpus": {"corpus": CORPUS},
    "queries": {"queries": QUERIES},
    "default": {"train": TRAIN, "test": TEST},
}


def package(subsets):
    """What of ``datasets`` is used, over subsets with their splits and rows."""
    return SimpleNamespace(
        get_dataset_config_names=lambda _: [*subsets],
        get_dataset_split_names=lambda _, subset: [*subsets[subset]],
        load_dataset=lambda _, subset, *, split, streaming: (
            iter(subsets[subset][split]) if streaming else None
        ),
    )


def test_documents_and_the_judged_queries_of_each_split_are_read_as_often_as_asked():
    collection = open_hub("mteb/presses", package(WHOLE))
    assert collection.splits == ("train", "test")
    for _ in range(2):
        assert [*collection.docs()] == [Doc("1", "the press", "Presses"), Doc("2", "")]
        assert [*collection.split_queries("train")] == [Query("a", "press"), Query("b", "bible")]
        assert [*collection.split_queries("test")] == [Query("a", "press")]
        assert [*collection.split_qrels("test")] == [Qrel("a", "1", 2)]
        assert [*collection.split_qrels("train")] == [Qrel("b", "2", 1), Qrel("a", "2", 0)]


def test_a_part_has_its_name_before_the_subsets():
    parts = {
        f"fr-{kind}": rows for kind, rows in zip(("corpus", "queries", "qrels"), WHOLE.values(), strict=True)
    }
    assert len([*open_hub("mteb/presses/fr", package(parts)).docs()]) == 2
    with pytest.raises(
        CollectionError, match="no retrieval task of mteb: it has no subset 'corpus' among 'fr-"
    ):
        open_hub("mteb/presses", package(parts))


@pytest.mark.parametrize(
    ("kind", "row", "message"),
    [
        ("corpus", {"docid": "1", "text": "x"}, r"expected the column _id or id, got \['docid', 'text'\]"),
        ("default", {"qid": "a"}, r"expected query-id, corpus-id and score, got \['qid'\]"),
    ],
)
def test_other_columns_are_named(kind, row, message):
    collection = open_hub("mteb/presses", package({**WHOLE, kind: {"test": [row]}}))
    with pytest.raises(CollectionError, match=message):
        [*collection.docs(), *collection.split_qrels("test")]


def test_what_cannot_be_downloaded_is_one_line(monkeypatch):
    def fail(*_, **__):
        raise ConnectionError("no route\nto the hub")

    without = package(WHOLE)
    without.load_dataset = fail
    with pytest.raises(CollectionError, match=r"mteb/presses: .* ConnectionError: 'no route to the hub'$"):
        [*open_hub("mteb/presses", without).docs()]
    without.get_dataset_config_names = fail
    monkeypatch.setitem(sys.modules, "datasets", without)
    with pytest.raises(CollectionError, match=r"mteb/presses: .* ConnectionError"):
        open_collection("mteb/presses")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"telerank\[hub\]"):
        open_collection("mteb/presses")


def test_the_command_writes_a_beir_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", package(WHOLE))
    assert "mteb-presses: 2 documents, " in ok("data get mteb/presses").stdout
    assert [*open_collection("mteb-presses").split_qrels("test")] == [Qrel("a", "1", 2)]
    assert "expected an ir_datasets id, or mteb/" in refusal("data get ./presses")
