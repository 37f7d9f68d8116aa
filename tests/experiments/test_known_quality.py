"""Figures of real collections that are known from elsewhere."""

from __future__ import annotations

import pytest

from telerank.corpus.formats import open_collection
from telerank.evaluation.measures import measure
from telerank.experiments.comparison import JudgedQueries
from telerank.retrieval.index import Index
from telerank.sparse.writer import build_index


@pytest.mark.data
def test_bm25_on_scifact_is_as_good_as_in_the_literature(data, tmp_path):
    """0.679 in Anserini's regressions (k1 0.9, b 0.4, English stemming and stop words)."""
    collection = open_collection(data / "scifact")
    judged = JudgedQueries.of(collection, "test")
    build_index(collection.docs(), tmp_path / "index", analyzer="english")
    bm25 = Index(tmp_path / "index").bm25(k1=0.9, b=0.4) % 10
    evaluation = measure(bm25.run(judged.queries), judged.qrels, "nDCG@10")
    assert len(evaluation.qids) == 300
    assert evaluation.mean["nDCG@10"] == pytest.approx(0.6780, abs=0.0005)
