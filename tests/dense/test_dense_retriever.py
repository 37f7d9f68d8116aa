"""The stage: laws, mixing of models, an index's own vectors."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest

import telerank
from small_vectors import Letters, docs
from telerank.dense.encode import Encoding, encode_documents
from telerank.dense.encoder import TorchEncoder
from telerank.dense.manifest import folder_name
from telerank.dense.retriever import DenseRetriever, open_retriever
from telerank.dense.vectors import Vectors
from telerank.errors import IndexFault, MissingExtra, ModelError
from telerank.sparse.writer import IndexWriter, build_index
from telerank.testing import check_stage
from telerank.types import Query

TEXTS = ["black bear attacks", "bears", "a cab", "the bear and the cab", "attacks of cats", "cats", "a cab"]
QUERIES = [Query("1", "bear attacks"), Query("2", ""), Query("3", "a bad cab"), Query("4", "zzz")]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dense") / "v"
    return encode_documents(docs(TEXTS), folder, Letters(), encoding=Encoding("float32", shard=3))


def test_it_obeys_the_laws(vectors):
    for depth, batch in ((None, 1), (None, 64), (5, 1), (5, 64)):
        check_stage(DenseRetriever(vectors, Letters(), depth=depth, batch=batch), QUERIES)


def test_every_document_is_ranked_unless_cut_and_ties_are_broken_by_docno(vectors):
    retriever = DenseRetriever(vectors, Letters())
    assert len(retriever.search("bear")) == len(TEXTS)
    assert (retriever % 3).depth == 3
    assert retriever % 3 % 5 == retriever % 3
    assert retriever.search("attacks of cats").docnos[0] == "d4"  # the document of this text
    docnos = retriever.search("a cab").docnos
    assert docnos.index("d6") + 1 == docnos.index("d2")


def test_an_explanation_is_lengths_times_cosine(vectors):
    explanation = DenseRetriever(vectors, Letters()).explain(Query("1", "bears"), "d1")
    lengths = [part.value for part in explanation.parts]
    assert np.isclose(np.prod(lengths), explanation.value)
    assert lengths[2] == pytest.approx(1)
    other = DenseRetriever(vectors, Letters()).explain(Query("1", "bears"), "d3")
    of_query, of_document, cosine = (part.value for part in other.parts)
    assert of_document > of_query
    assert of_query * of_document * cosine == pytest.approx(other.value)


def test_another_model_and_numbers_below_one_are_refused(vectors):
    with pytest.raises(ModelError, match=r"its vectors were made by letters \(0{12}\), not by letters"):
        DenseRetriever(vectors, Letters(seed=1))
    for wrong in ({"depth": 0}, {"batch": 0}, {"threads": True}):
        with pytest.raises(ValueError, match="at least 1"):
            DenseRetriever(vectors, Letters(), **wrong)


def test_vectors_are_equal_where_folder_and_content_are(vectors):
    assert pickle.loads(pickle.dumps(vectors)) == vectors == Vectors(vectors.folder)
    assert vectors != "vectors"
    assert repr(vectors) == f"Vectors({str(vectors.folder)!r})"
    for name in ("minilm", "intfloat/e5-small"):
        assert folder_name(name) == name.replace("/", "-")
    assert folder_name(str(vectors.folder)) == vectors.folder.name


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from small_models import small_encoder

    return str(small_encoder(tmp_path_factory.mktemp("models") / "small-bert"))


WORDS = [f"q{n} d{n} d{n % 5} x{n % 3}" for n in range(30)]


def test_an_index_finds_its_own_vectors(model, tmp_path):
    build_index(docs(WORDS), tmp_path / "idx")
    index = telerank.open(tmp_path / "idx")
    with pytest.raises(IndexFault, match=r"no vectors of .*small-bert"):
        index.dense(model)
    telerank.encode(index, model=model, dtype="float32")
    dense = index.dense(model) % 5
    assert index.dense() == index.dense("small-bert") == index.dense(model)
    assert repr(dense) == "dense(small-bert) % 5"
    assert len(dense.search("q3 d3")) == 5
    check_stage(dense, [Query("1", "q1 d1"), Query("2", ""), Query("3", "x1 d4")], tolerance=1e-5)
    assert len((index.bm25() % 10 + dense).search("q3 d3"))
    with IndexWriter(tmp_path / "idx") as writer:
        writer.delete(["d7"])
    assert len(telerank.open(tmp_path / "idx").dense(model).search("q1")) == len(WORDS) - 1
    telerank.index(docs(WORDS), tmp_path / "idx", overwrite=True, workers=1)
    with pytest.raises(IndexFault, match="no document of the index has a vector: encode it again"):
        telerank.open(tmp_path / "idx").dense(model)


def test_a_folder_of_vectors_knows_its_model(model, tmp_path):
    encoder = TorchEncoder(model)
    encode_documents(docs(WORDS), tmp_path / "v", encoder)
    retriever = open_retriever(tmp_path / "v")
    resolved = replace(encoder, precision="float32")  # which auto is on a processor
    assert retriever.encoder == resolved
    assert retriever == open_retriever(Vectors(tmp_path / "v"), resolved)


def test_texts_in_batches_and_alone_have_the_same_vectors(model):
    encoder = TorchEncoder(model)
    tokens, cut = encoder.tokenize(["d1", "d2 d3 d4 x1", "", "d1 " * 100])
    together = encoder.encode_tokens(tokens)
    assert cut == 1
    assert together.shape == (4, 32)
    for ids, vector in zip(tokens, together, strict=True):
        assert np.allclose(encoder.encode_tokens([ids])[0], vector, atol=1e-5)
    assert encoder.encode_tokens([]).shape == (0, 32)
    assert pickle.loads(pickle.dumps(encoder)) == encoder


def test_unknown_precisions_and_a_missing_extra_are_named(monkeypatch):
    with pytest.raises(ModelError, match="auto, float32, tf32 or bfloat16, got 'float16'"):
        TorchEncoder("minilm", precision="float16")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="telerank\\[neural\\]"):
        _ = TorchEncoder("minilm").dimension
