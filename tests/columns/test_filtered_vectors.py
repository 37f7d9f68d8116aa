"""Filtered searches of vectors: exact ones are the whole ranking without the others, approximate ones are full."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import telerank as tr
from small_vectors import Letters
from telerank.columns.filters import Filter, passes
from telerank.dense.retriever import build_approximate
from telerank.errors import MissingVectors
from telerank.types import doc_values

QUERIES = ("bears of a zoo", "xyz", "the quick brown fox", "e")
FILTERS = ["n == 3", "n < 5", "n >= 50", "kind == 'a' and n != 7", "n == 1000", "kind is null"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    draw = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz "
    docs = [
        {
            "docno": f"d{n:04}",
            "text": "".join(draw.choices(letters, k=draw.randint(5, 40))) + "e",
            "n": n % 100,
        }
        | ({"kind": draw.choice("ab")} if draw.random() < 0.7 else {})
        for n in range(3000)
    ]
    made = tr.index(docs[:2000], tmp_path_factory.mktemp("vectors") / "i", workers=1, progress=False)
    made.encode(Letters(), name="letters", progress=False)
    made.add(docs[2000:], progress=False)
    made.delete([f"d{n:04}" for n in range(0, 3000, 11)])
    return made


@pytest.mark.parametrize("text", FILTERS)
def test_an_exact_search_is_the_whole_ranking_without_the_others(index, text):
    tree = Filter.parse(text).bind(index.columns)
    stage = index.dense("letters")
    filtered = stage.where(text)
    for query in QUERIES:
        whole = stage.search(query)
        kept = [passes(tree, doc_values(index.docs[docno])) for docno in whole.docnos]
        docnos = [docno for docno, own in zip(whole.docnos, kept, strict=True) if own]
        for k in (1, 10, 400, 3000):
            ranking = (filtered % k).search(query)
            assert list(ranking.docnos) == docnos[:k], (text, query, k)
            assert np.array_equal(ranking.scores, whole.scores[kept][:k])
    assert repr(filtered % 10) == f"where(dense(letters), {Filter.parse(text).text!r}) % 10"


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq(lists=16, probes=1)"])
def test_an_approximate_search_has_as_many_hits_as_there_are(index, kind):
    pytest.importorskip("faiss")
    name = kind.partition("(")[0]
    stage = index.dense("letters")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingVectors)
        build_approximate(stage.vectors, kind)
    approximate = index.dense("letters", approximate=name, candidates=50)
    for text in FILTERS:
        filtered = approximate.where(text)
        for query in QUERIES:
            exact = (stage.where(text) % 20).search(query)
            ranking = (filtered % 20).search(query)
            assert len(ranking) == len(exact)
            assert set(ranking.docnos) <= set(stage.where(text).search(query).docnos)
    few = approximate.where("n == 3") % 20
    assert few.search("bears").docnos == (stage.where("n == 3") % 20).search("bears").docnos
    assert few.remarks == [f"{few.call}: 1 of 1 filtered search scored all that pass"]


def test_a_filter_of_vectors_needs_an_index(index, tmp_path):
    stage = index.dense("letters")
    shown = stage.where("n == 3").search("bears").docnos[0]
    assert stage.where("n == 3").explain("bears", shown) == stage.explain("bears", shown)
    hidden = next(docno for docno in stage.search("bears").docnos if index.docs[docno].columns["n"] != 3)
    with pytest.raises(KeyError):
        stage.where("n == 3").explain("bears", hidden)
    both = (minmax(stage % 100) + minmax(index.bm25() % 100)).where("n == 3")
    assert all(index.docs[docno].columns["n"] == 3 for docno in both.search("bears e").docnos)


minmax = tr.minmax
