"""A qid that comes twice is refused before anything is searched."""

from __future__ import annotations

import pytest

import telerank as tr
from telerank.errors import CollectionError
from telerank.types import Doc, Query


def test_a_qid_that_comes_twice_is_refused_in_memory_and_in_a_file(tmp_path):
    index = tr.index([Doc("d", "lake")], tmp_path / "idx", workers=1)
    queries = [Query("1", "lake"), Query("2", "lake"), Query("1", "deep")]
    with pytest.raises(CollectionError, match="queries in memory: query 1 comes twice"):
        tr.search(index, queries)
    assert [ranking.query.qid for ranking in tr.search(index, queries[:2])] == ["1", "2"]
    (tmp_path / "LISA.QUE").write_text("1\nLAKE #\n1\nDEEP #\n")
    (tmp_path / "LISA0.001").write_text("Document 1\nLAKE\n********\n")
    with pytest.raises(CollectionError, match="query 1 comes twice"):
        tr.search(index, tr.collection(tmp_path, format="lisa"))
