"""An index changes and describes itself, and its documents are a mapping."""

from __future__ import annotations

import numpy as np
import pytest

import telerank as tr
from telerank.errors import ArgumentTypeError, DocumentError, IndexFault, TelerankError, UnknownDocument
from telerank.types import Doc


@pytest.fixture
def index(tmp_path):
    return tr.index({"a": "black bears", "b": "a bear"}, tmp_path / "idx", analyzer="english", progress=False)


def test_a_change_is_seen_by_the_index_and_not_by_stages_made_before(index):
    before = index.bm25()
    assert index.add({"c": "the bear of the north"}, progress=False) == 1
    assert index.add([Doc("a", "a lion")], update=True, progress=False) == 1
    assert (before.search("bear").docnos, before.search("lion").docnos) == (("b", "a"), ())
    assert set(index.bm25().search("bear").docnos) == {"b", "c"}
    assert index.bm25().search("lion").docnos == ("a",)
    assert index.delete(["b"]) == 1
    assert index.bm25().search("bear").docnos == ("c",)
    facts = index.info()
    assert (facts["documents"], facts["segments"], facts["deleted, not yet merged"]) == (2, 3, 2)
    index.merge(progress=False)
    assert (index.info()["segments"], index.verify(progress=False)) == (1, tr.open(index.folder).verify())
    assert "<td>documents</td><td>2</td>" in index._repr_html_()
    with pytest.raises(DocumentError, match="'a' is in the index already"):
        index.add({"a": "x"}, progress=False)
    with pytest.raises(IndexFault, match="was not made from a folder of files"):
        index.update(index.folder)


def test_documents_are_a_mapping(index):
    index.delete(["a"])
    index.add({"c": "text"}, progress=False)
    assert list(index.docs) == list(index.docs.keys()) == ["b", "c"]
    assert [doc.text for doc in index.docs.values()] == ["a bear", "text"]
    assert dict(index.docs.items()) == {docno: index.docs[docno] for docno in index.docs}
    assert (len(index.docs), len(index.docs.values()), "a" in index.docs, "b" in index.docs) == (
        2,
        2,
        False,
        True,
    )
    assert (index.docs.get("a"), index.docs.get("c")) == (None, Doc("c", "text"))
    with pytest.raises(UnknownDocument, match=r"idx: no document 'a'$") as caught:
        index.docs["a"]
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, TelerankError)
    with pytest.raises(ArgumentTypeError, match="expected a docno, a text, got 3"):
        index.docs[3]
    with pytest.raises(UnknownDocument, match="no document 'a': the stage has no score for it"):
        index.bm25().explain("bear", "a")


def test_vectors_go_out_as_arrays_with_their_docnos(index, tmp_path):
    from small_models import small_encoder

    stored = index.encode(str(small_encoder(tmp_path / "small-bert")), progress=False)
    docnos, vectors = index.arrays()
    assert docnos == ["a", "b"]
    assert vectors.dtype == np.float32
    assert np.array_equal(vectors, stored.take(np.arange(2)))
    index.encode(str(tmp_path / "small-bert"), name="mine", progress=False)
    assert len(tr.open(index.folder).dense("mine").search("one")) == 2
    with pytest.raises(IndexFault, match="no vectors of other"):
        index.arrays("other")
