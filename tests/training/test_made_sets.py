"""A re-ranker learns from several sets, joined before its training; parts of articles are those of readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reader_place import squad_file

import telerank as tr
from commands import ok
from small_models import small_encoder
from telerank.corpus.derived.articles import ArticleParts, article_name
from telerank.errors import CollectionError
from telerank.models.rerankers.reranker import load_reranker
from telerank.training.reader.config import ArticleShares, QuestionSource
from telerank.training.reader.questions import read_questions


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two sets about the same 20 articles, and an encoder."""
    folder = tmp_path_factory.mktemp("made")
    for name, seed in (("one", 0), ("two", 1)):
        squad_file(folder / f"{name}.json", articles=20, seed=seed)
    small_encoder(folder / "encoder")
    return folder


def settings_of(place: Path, **made) -> dict:
    model = f"interleave(bm25 % 20, dense('{place / 'encoder'}') % 20)"
    sets = [str(place / "one.json"), str(place / "two.json")]
    return {
        "data": {
            "made_of": {"sets": sets, "model": model, "depth": 4, "seed": 3, **made},
            "negatives": {"pool": "negatives", "depth": 4, "per_positive": 3, "resample": True},
        },
        "model": {
            "start": str(place / "encoder"),
            "frozen_embeddings": True,
            "max_query": 8,
            "max_length": 32,
        },
        "loss": {"objective": "softmax"},
        "optimisation": {"steps": 3, "warm_up": 0, "batch": 4},
        "dev": {
            "split": "dev",
            "pool": "negatives",
            "depth": 4,
            "measures": "loss",
            "every": 3,
            "patience": 3,
        },
    }


def test_a_training_makes_its_set_once(place, tmp_path, monkeypatch):
    model = tr.train("reranker", settings_of(place), tmp_path / "out").model
    assert load_reranker(model).shape.max_query == 8
    made = tmp_path / "out" / "ranking-set"
    data = tr.collection(made)
    assert set(data.splits) == {"train", "dev", "test"}
    counts = json.loads((tmp_path / "out" / "data.json").read_text())
    assert counts["queries"] == len(list(data.split_queries("train")))
    before = (made / "ranking-set.json").stat().st_mtime_ns
    tr.train("reranker", settings_of(place), tmp_path / "out", resume=True)
    assert (made / "ranking-set.json").stat().st_mtime_ns == before
    with pytest.raises(CollectionError, match="nowhere"):
        tr.train("reranker", settings_of(place, sets=[str(place / "nowhere")]), tmp_path / "other")


def test_half_of_the_negatives_come_from_each_part_of_an_interleaved_first_stage(place, tmp_path):
    """Each negative is among the first of one of the two, and both give some that the other does not have."""
    sets, dense = f"{place / 'one.json'} {place / 'two.json'}", f"dense('{place / 'encoder'}')"
    tops = {}
    for name, model in (("bm25", "bm25"), ("dense", dense), ("both", f"interleave(bm25, {dense})")):
        ok(
            f"data make-ranking-set {tmp_path / name} {sets} --split-by article --seed 3 --depth 6",
            "--model",
            model,
        )
        pool = tr.collection(tmp_path / name).pools["train/negatives"]
        tops[name] = {ranking.query.qid: ranking.docnos for ranking in pool()}
    only = {"bm25": 0, "dense": 0}
    for qid, docnos in tops["both"].items():
        words, vectors = set(tops["bm25"][qid][:6]), set(tops["dense"][qid][:6])
        assert set(docnos) <= words | vectors
        only["bm25"] += len(set(docnos) - vectors)
        only["dense"] += len(set(docnos) - words)
    assert min(only.values()) > 0
    assert only["bm25"] == pytest.approx(only["dense"], rel=0.4)


def test_parts_of_articles_are_those_of_readers(place, tmp_path):
    sets = [place / "one.json", place / "two.json"]
    ok(f"data make-ranking-set {tmp_path / 'set'} {sets[0]} {sets[1]} --split-by article --seed 3 --depth 3")
    data = tr.collection(tmp_path / "set")
    docs, parts = {doc.docno: doc for doc in data.docs()}, ArticleParts(seed=3)
    texts = {part: set() for part in data.splits}
    for part in data.splits:
        for qrel in data.split_qrels(part):
            assert parts.part_of(article_name(docs[qrel.docno], "")) == part
            texts[part].add(docs[qrel.docno].text)
        for ranking in data.pools[f"{part}/negatives"]():
            assert {parts.part_of(article_name(docs[docno], "")) for docno in ranking.docnos} <= {part}
        shares = ArticleShares(seed=3)
        read = [read_questions(QuestionSource(collection=str(own), part=part), shares, 0) for own in sets]
        assert texts[part] == {question.doc.text for own in read for question in own.questions}
