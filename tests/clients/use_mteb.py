# requires: mteb torch==2.13.0 --editable .
"""mteb: pipelines are search models, and its nDCG@10 is telerank's own, on SciFact and PIAF."""

import json
import os
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import mteb

import telerank as tr
from telerank.corpus.collection import Collection
from telerank.evaluation.measures import measure
from telerank.integrations.mteb import SearchModel, collection_task
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker, save_reranker

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from small_late import small_late  # noqa: E402 — of tests, which are no package
from small_models import small_encoder, small_masked  # noqa: E402 — of tests, which are no package

DATA = os.environ.get("TELERANK_DATA", "../shared/data")
CLOSE = 1e-5  # mteb rounds means to five digits
LEAST = 0.005  # else most rankings may be empty, which are equal, too
ANALYZERS = {"eng-Latn": "english", "fra-Latn": "french"}


def first_queries(name: str, split: str, most: int, docs: int | None = None) -> Collection:
    """A collection with the first judged queries of a split; with ``docs``, their documents and so many others."""
    whole = tr.collection(f"{DATA}/{name}")
    qids = set(islice(whole.judged(split), most))
    qrels = [qrel for qrel in whole.split_qrels(split) if qrel.qid in qids]
    queries = [query for query in whole.split_queries(split) if query.qid in qids]
    kept = [*whole.docs()]
    if docs is not None:
        relevant, others = {qrel.docno for qrel in qrels}, kept
        kept = [doc for doc in others if doc.docno in relevant]
        kept += islice((doc for doc in others if doc.docno not in relevant), docs)
    streams = {"queries": {split: lambda: iter(queries)}, "qrels": {split: lambda: iter(qrels)}}
    return replace(whole, docs=lambda: iter(kept), size=len(kept), **streams)


def check(data: Collection, language: str, model: SearchModel, own: tr.Stage, name: str) -> Path:
    """The file of mteb's results, whose values are those of ``own``, the pipeline in telerank."""
    folder = Path(tempfile.mkdtemp(dir=TEMPORARY))
    task = collection_task(data, language, name=data.name.title())
    cache = mteb.ResultCache(folder)
    results = mteb.evaluate(model, task, cache=cache, show_progress_bar=False, overwrite_strategy="always")
    [written] = folder.rglob(f"{task.metadata.name}.json")
    theirs = results.task_results[0].scores["test"][0]["ndcg_at_10"]
    assert f'"ndcg_at_10": {theirs}' in written.read_text()
    means = measure((own % 1000).run(data.split_queries()), data.judged(), "nDCG@10").mean
    ours = means["nDCG@10"]
    assert abs(theirs - ours) < CLOSE, (task.metadata.name, name, theirs, ours)
    assert ours > LEAST, (task.metadata.name, name, ours)
    print(f"{task.metadata.name}, {name}: nDCG@10 {theirs:.5f}, telerank's own {ours:.5f}", flush=True)
    return written


def check_words(data: Collection, language: str) -> None:
    """BM25 as a text, and a fusion as a function."""
    index = tr.index(data, f"{TEMPORARY}/{data.name}", analyzer=ANALYZERS[language], progress=False)
    fused = "rrf(bm25 % 100, lm_dirichlet % 100)"
    check(data, language, SearchModel("bm25"), index.bm25(), "bm25")
    function = SearchModel(lambda index: tr.pipeline(fused, index))
    check(data, language, function, tr.pipeline(fused, index), fused)


def check_models(data: Collection, language: str) -> None:
    """Vectors, weights of terms, vectors of tokens and a re-ranker, of small models that know the collection's words."""
    folder = Path(TEMPORARY) / f"{data.name}-models"
    counts = Counter(word for doc in data.docs() for word in doc.full_text.lower().split() if word.isalpha())
    words = [word for word, _ in counts.most_common(3000)]
    encoder = str(small_encoder(folder / "encoder", words=words))
    masked = str(small_masked(folder / "masked", words=words))
    late = str(small_late(folder / "late", words=words))
    shape = Shape("monobert", max_query=24, max_length=64)
    save_reranker(fresh_reranker(small_encoder(folder / "start", words=words), shape), folder / "reranker")
    index = tr.index(
        data, folder / "index", analyzer=ANALYZERS[language], weights_model=masked, progress=False
    )
    for model in (encoder, late):
        tr.encode(index, model=model, progress=False)
    rerank = f"bm25 % 20 >> rerank('{folder / 'reranker'}')"
    for pipeline, settings in (
        ("dense", {"encoders": [encoder]}),
        ("impact", {"weights_model": masked}),
        ("bm25 % 20 >> maxsim", {"encoders": [late]}),
        (rerank, {}),
    ):
        name = pipeline.partition("(")[0]
        searched = SearchModel(pipeline, name=f"telerank/{name.split()[-1]}", **settings)
        check(data, language, searched, tr.pipeline(pipeline, index), name)


def check_given_lists(data: Collection, language: str) -> None:
    """In tasks of re-ranking the documents of the lists are ranked, and no others."""
    model = SearchModel("bm25")
    docs = [
        {"id": "1", "title": "", "text": "a press"},
        {"id": "2", "title": "", "text": "a press for olives"},
    ]
    model.index(docs, task_metadata=collection_task(data, language).metadata)
    found = model.search([{"id": "q", "text": "press"}], top_k=10, top_ranked={"q": ["2"]})
    assert [*found["q"]] == ["2"], found


def check_written(language: str) -> None:
    """The results of PIAF that the documents name are those of now."""
    [kept] = (ROOT / "docs" / "results" / "mteb").rglob("PIAF.json")
    data = replace(tr.piaf(), name="PIAF")
    index = tr.index(data, f"{TEMPORARY}/piaf-index", analyzer=ANALYZERS[language], progress=False)
    now = check(data, language, SearchModel("bm25"), index.bm25(), "bm25")
    before, after = (json.loads(file.read_text()) for file in (kept, now))
    assert before["dataset_revision"] == after["dataset_revision"]
    mine, others = (each["scores"]["test"][0]["ndcg_at_10"] for each in (before, after))
    assert mine == others, (mine, others)


with tempfile.TemporaryDirectory() as TEMPORARY:
    for collection, part, spoken, most in (
        ("scifact", "test", "eng-Latn", None),
        ("piaf", "all", "fra-Latn", 500),
    ):
        check_words(first_queries(collection, part, most), spoken)
        check_models(first_queries(collection, part, 60, docs=20), spoken)
    check_given_lists(tr.piaf(), "fra-Latn")
    print("re-ranking tasks passed")
    check_written("fra-Latn")
