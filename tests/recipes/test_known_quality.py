"""Figures of real collections that are known from elsewhere."""

from __future__ import annotations

import pytest

from telerank.corpus.formats import open_collection
from telerank.evaluate.measures import measure
from telerank.recipes.sparse import Task
from telerank.sparse.writer import build_index


@pytest.mark.data
def test_bm25_on_scifact_is_as_good_as_the_literature_has_it(data, tmp_path):
    """0.679 in Anserini's regressions (k1 0.9, b 0.4, English stemming and stop words)."""
    task = Task.of(open_collection(data / "scifact"), "test")
    index = build_index(task.docs(), tmp_path / "index", analyzer="english")
    found = measure((index.bm25(k1=0.9, b=0.4) % 10).run(task.queries), task.qrels, "nDCG@10")
    assert len(found.qids) == 300
    assert found.mean["nDCG@10"] == pytest.approx(0.6780, abs=0.0005)
