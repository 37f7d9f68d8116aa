"""A search model indexes, searches and keeps to given lists; mteb itself measures in ``make clients``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import telerank as tr
from small_late import small_late
from small_models import small_masked
from telerank.errors import CollectionError, MissingExtra
from telerank.evaluation.measures import measure
from telerank.integrations.mteb import SearchModel, collection_task
from telerank.types import Qrel

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "mteb"
CORPUS = [
    {"id": "1", "title": "Presses", "text": "the press of Gutenberg"},
    {"id": "2", "title": "", "text": "a press for olives, presses"},
    {"id": "3", "text": "bibles"},
]
QUERIES = [{"id": "q", "text": "pressing"}, {"id": "none", "text": "xyzzy"}]


def speaking(*languages: str, **subsets: list[str]) -> SimpleNamespace:
    """What mteb says of a task in these languages, or with a subset for each."""
    own = subsets or {"default": [*languages]}
    return SimpleNamespace(languages=[*languages, *chain(*subsets.values())], hf_subsets_to_langscripts=own)


ENGLISH = speaking("eng-Latn")


@pytest.fixture
def search_model(monkeypatch):
    """The class, with the part of mteb that describes models."""
    models = ModuleType("mteb.models")
    models.ModelMeta = SimpleNamespace
    monkeypatch.setitem(sys.modules, "mteb", ModuleType("mteb"))
    monkeypatch.setitem(sys.modules, "mteb.models", models)
    return SearchModel


@pytest.fixture
def task_modules(monkeypatch):
    """The parts of mteb and datasets that tasks are made of."""
    names = (
        "mteb",
        "mteb.abstasks",
        "mteb.abstasks.retrieval_dataset_loaders",
        "mteb.abstasks.task_metadata",
    )
    modules = {name: ModuleType(name) for name in (*names, "datasets")}
    modules["datasets"].Dataset = SimpleNamespace(from_list=list)
    modules[names[1]].AbsTaskRetrieval = object
    modules[names[2]].RetrievalSplitData = modules[names[3]].TaskMetadata = SimpleNamespace
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


def test_a_collection_is_a_task_of_its_judged_queries(task_modules):
    data = tr.piaf()
    task = collection_task(data, "fra-Latn")
    about = task.metadata
    assert (about.name, about.eval_langs, about.eval_splits) == ("PIAF-v1.1", ["fra-Latn"], ["test"])
    task.load_data()
    held = task.dataset["default"]["test"]
    assert (len(held.corpus), len(held.queries), held.relevant_docs) == (1518, 7569, data.judged())
    first = next(data.docs())
    assert held.corpus[0] == {"id": first.docno, "title": first.title, "text": first.text}
    [split] = data.splits
    some = [next(data.split_qrels())]
    part = replace(data, qrels={split: lambda: iter(some)})
    task = collection_task(part, "fra-Latn", name="Part")
    task.load_data()
    asked = [query["id"] for query in task.dataset["default"]["test"].queries]
    assert (task.metadata.name, asked) == ("Part", [some[0].qid])


def test_the_revision_of_a_task_is_that_of_its_data(task_modules):
    data = tr.piaf()
    [split] = data.splits
    docs, queries, qrels = [*data.docs()][:3], [*data.split_queries()][:2], [Qrel("a", "b", 1)]

    def revision(docs, queries, qrels):
        streams = {"queries": {split: lambda: iter(queries)}, "qrels": {split: lambda: iter(qrels)}}
        made = replace(data, docs=lambda: iter(docs), **streams)
        return collection_task(made, "fra-Latn").metadata.dataset["revision"]

    revisions = [
        revision(docs, queries, qrels),
        revision([replace(docs[0], text="another"), *docs[1:]], queries, qrels),
        revision(docs, queries[:1], qrels),
        revision(docs, queries, [Qrel("a", "b", 2)]),
    ]
    assert len(set(revisions)) == 4
    assert revision(docs, queries, qrels) == revisions[0]


def test_the_results_on_piaf_in_mtebs_format_are_those_of_telerank(task_modules, tmp_path):
    [file] = RESULTS.rglob("telerank__bm25/*/PIAF.json")
    record = json.loads(file.read_text())
    [scores] = record["scores"]["test"]
    data = tr.piaf()
    index = tr.index(data, tmp_path / "idx", analyzer="french")
    names = {"nDCG@10": "ndcg_at_10", "R@100": "recall_at_100", "AP": "map_at_1000", "P@5": "precision_at_5"}
    means = measure((index.bm25() % 1000).run(data.split_queries()), data.judged(), " ".join(names)).mean
    for own, theirs in names.items():
        assert scores[theirs] == pytest.approx(means[own], abs=1e-5)
    revision = collection_task(data, "fra-Latn").metadata.dataset["revision"]
    assert record["dataset_revision"] == revision


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
    assert (model.mteb_model_meta.name, model.mteb_model_meta.model_type) == ("me/mine", ["sparse"])
    dense = search_model("dense", encoders=["e5-small"], analyzer="french", name=None).mteb_model_meta
    assert (dense.name, dense.model_type) == ("telerank/dense-e5-small-french", ["dense"])
    function = search_model(partial(tr.pipeline, "bm25"), weights_model="a/splade", name=None)
    assert function.mteb_model_meta.name == "telerank/pipeline-a-splade"
    french = [{"id": "1", "text": "l'école des enfants"}]
    subsets = speaking(fr=["fra-Latn"], en=["eng-Latn"])
    for about, subset, found in (
        (speaking("fra-Latn"), "default", 1),
        (speaking("fra-Latn", "eng-Latn"), "default", 0),
        (subsets, "fr", 1),
        (subsets, "en", 0),
        (subsets, "all", 0),
    ):
        model.index(french, task_metadata=about, hf_subset=subset)
        assert len(model.search([{"id": "q", "text": "écoles"}], top_k=5)["q"]) == found


def test_a_search_before_a_corpus_and_a_missing_package_are_said(search_model, monkeypatch):
    with pytest.raises(CollectionError, match="search before index"):
        search_model("bm25").search(QUERIES, top_k=5)
    monkeypatch.setitem(sys.modules, "mteb.models", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    for make in (lambda: search_model("bm25"), lambda: collection_task(tr.piaf(), "fra-Latn")):
        with pytest.raises(MissingExtra, match=r"telerank\[mteb\]"):
            make()
