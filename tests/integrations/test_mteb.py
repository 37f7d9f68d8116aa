"""A search model indexes, searches and keeps to given lists; mteb itself measures in ``make clients``."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import telerank as tr
from small_late import small_late
from small_models import small_masked
from telerank.errors import CollectionError, MissingExtra
from telerank.integrations.mteb import SearchModel

CORPUS = [
    {"id": "1", "title": "Presses", "text": "the press of Gutenberg"},
    {"id": "2", "title": "", "text": "a press for olives, presses"},
    {"id": "3", "text": "bibles"},
]
QUERIES = [{"id": "q", "text": "pressing"}, {"id": "none", "text": "xyzzy"}]
ENGLISH = SimpleNamespace(languages=["eng-Latn"])


@pytest.fixture
def search_model(monkeypatch):
    """The class, with the part of mteb that describes models."""
    models = ModuleType("mteb.models")
    models.ModelMeta = SimpleNamespace
    monkeypatch.setitem(sys.modules, "mteb", ModuleType("mteb"))
    monkeypatch.setitem(sys.modules, "mteb.models", models)
    return SearchModel


def test_a_text_and_a_function_find_what_their_pipeline_finds(search_model, tmp_path):
    docs = [tr.Doc(row["id"], row["text"], row.get("title", "")) for row in CORPUS]
    expected = dict(tr.index(docs, tmp_path / "own", analyzer="english").bm25().search("pressing"))
    assert set(expected) == {"1", "2"}
    for pipeline in ("bm25", lambda index: index.bm25()):
        model = search_model(pipeline)
        model.index(CORPUS, task_metadata=ENGLISH)
        assert model.search(QUERIES, top_k=5) == {"q": expected, "none": {}}
        [best] = model.search(QUERIES[:1], top_k=1).values()
        assert [*best] == [max(expected, key=expected.__getitem__)]


def test_weights_of_terms_and_vectors_of_tokens_are_made_for_the_pipeline(search_model, tmp_path):
    weights, tokens = str(small_masked(tmp_path / "masked")), str(small_late(tmp_path / "late"))
    model = search_model("impact % 2 >> maxsim", encoders=[tokens], weights_model=weights)
    model.index(CORPUS, task_metadata=ENGLISH)
    docs = [tr.Doc(row["id"], row["text"], row.get("title", "")) for row in CORPUS]
    index = tr.index(docs, tmp_path / "own", analyzer="english", weights_model=weights)
    tr.encode(index, model=tokens)
    expected = dict((index.impact() % 2 >> index.maxsim()).search("pressing"))
    assert len(expected) == 2
    assert model.search(QUERIES[:1], top_k=5)["q"] == expected


def test_of_given_lists_every_document_has_a_score_and_no_other(search_model):
    model = search_model("bm25")
    model.index(CORPUS, task_metadata=ENGLISH)
    found = model.search(QUERIES, top_k=5, top_ranked={"q": ["3", "2"]})
    assert found["q"]["2"] > found["q"]["3"] == 0
    assert len(found["q"]) == 2
    assert found["none"] == {}


def test_the_language_of_a_task_chooses_the_analyzer_and_the_pipeline_its_name(search_model):
    model = search_model("bm25 % 100 >> rerank(mine)", name=None)
    assert model.mteb_model_meta.name == "telerank/bm25-100-rerank-mine"
    model = search_model("bm25", name="me/mine")
    assert model.mteb_model_meta.name == "me/mine"
    french = [{"id": "1", "text": "l'école des enfants"}]
    for languages, found in ((["fra-Latn"], 1), (["fra-Latn", "eng-Latn"], 0)):
        model.index(french, task_metadata=SimpleNamespace(languages=languages))
        assert len(model.search([{"id": "q", "text": "écoles"}], top_k=5)["q"]) == found


def test_a_search_before_a_corpus_and_a_missing_package_are_said(search_model, monkeypatch):
    with pytest.raises(CollectionError, match="search before index"):
        search_model("bm25").search(QUERIES, top_k=5)
    monkeypatch.setitem(sys.modules, "mteb.models", None)
    with pytest.raises(MissingExtra, match=r"telerank\[mteb\]"):
        search_model("bm25")
