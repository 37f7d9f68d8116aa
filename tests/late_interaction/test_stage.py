"""MaxSim re-ranks the documents of any first stage; its vectors follow the index."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_late import small_late
from telerank.errors import ArgumentError, IndexDamaged, IndexFault, MissingVectors, ModelError
from telerank.late_interaction import store
from telerank.late_interaction.encoder import LateEncoder
from telerank.testing import check_stage
from telerank.types import Query

DOCS = {f"n{number}": f"q1 d{number} d{number + 1} x{number} q{number % 5}" for number in range(12)}
QUERIES = [Query("1", "q1 d3"), Query("2", "q1 q4"), Query("3", ""), Query("4", "nothing")]


@pytest.fixture
def folder(tmp_path):
    return str(small_late(tmp_path / "colbert", skipped=("x1",)))


@pytest.fixture
def index(tmp_path, folder):
    built = tr.index(DOCS, tmp_path / "index", analyzer="whitespace")
    built.encode_tokens(folder)
    return built


def expected(encoder: LateEncoder, query: str, text: str) -> float:
    """The formula over what is stored of a text."""
    tokens, _ = encoder.encode_query(query)
    [(_, vectors, is_cut)] = encoder.encode_documents([text])
    assert not is_cut
    codes, bounds = store.quantise_tokens(vectors)
    stored = codes[:, : vectors.shape[1]].astype(np.float64) * bounds[:, :1].astype(np.float64)
    return float((tokens.astype(np.float64) @ stored.T).max(axis=1).sum())


def test_documents_are_scored_by_the_formula(index, folder):
    stage = index.bm25() >> index.maxsim()
    encoder = LateEncoder(folder)
    for query in ("q1 d3", "q1 x5 q2"):
        ranking = stage.search(query)
        assert len(ranking) == 12
        for docno, score in ranking:
            assert score == pytest.approx(expected(encoder, query, DOCS[docno]), abs=1e-4)  # of another batch


def test_the_stage_obeys_every_law(index):
    check_stage(index.bm25() >> index.maxsim(), QUERIES, tolerance=1e-12)
    candidates = [index.bm25().search(query) for query in QUERIES]
    check_stage(index.maxsim(), candidates, tolerance=1e-12)


def test_an_explanation_sums_the_best_products(index):
    stage = tr.pipeline("bm25 % 10 >> maxsim(colbert) % 3", index)
    assert repr(stage) == "bm25(k1=1.2, b=0.75) % 10 >> maxsim(colbert) % 3"
    assert tr.pipeline(repr(stage), index) == stage
    ranking = stage.search("q1 d3")
    why = index.maxsim().explain(Query("1", "q1 d3"), ranking.docnos[0])
    assert why.value == pytest.approx(ranking.scores[0], abs=1e-12)
    assert sum(part.value for part in why.parts) == why.value
    assert len(why.parts) == 12
    text = str(why)
    assert "MaxSim of 12 query tokens, by colbert" in text
    assert "[MASK]: nearest is" in text


def test_vectors_follow_the_index(index, folder, monkeypatch):
    encoded = []
    original = LateEncoder.encode_documents

    def counted(self, texts):
        encoded.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(LateEncoder, "encode_documents", counted)
    before = dict(index.maxsim()([tr.Ranking.ranked(QUERIES[0], tuple(DOCS), np.zeros(12))]).__next__())
    index.add({"new": "q1 d20 d21"})
    assert encoded == ["q1 d20 d21"]
    index.delete("n3")
    index.add({"n4": "q1 d30", "copy": DOCS["n5"]}, update=True)
    assert encoded[1:] == ["q1 d30"]  # the text of n5 has vectors
    index.merge()
    assert encoded[2:] == []
    stage = index.bm25() >> index.maxsim()
    after = dict(stage.search("q1 d3"))
    assert after.keys() == before.keys() - {"n3"} | {"new", "copy"}
    assert {docno: after[docno] for docno in before.keys() - {"n3", "n4"}} == {
        docno: before[docno] for docno in before.keys() - {"n3", "n4"}
    }
    assert after["copy"] == after["n5"]
    assert len(index.maxsim().vectors.manifest.parts) == 1  # those of replaced segments are removed
    index.maxsim().vectors.verify()


def test_texts_that_are_cut_are_counted(index, folder):
    assert index.maxsim().vectors.manifest.cut == 0
    index.add({"long": "q1 " * 30, "longer": "d1 " * 40, "fits": "q1 " * 12})
    assert index.maxsim().vectors.manifest.cut == 2
    encoded = tr.encode(index, model=folder)
    assert encoded.record()["cut"] == 2
    assert str(encoded).endswith("2 documents longer than 20 tokens: cut there")


def test_settings_that_vectors_of_tokens_do_not_have_are_refused(index, folder):
    with pytest.raises(ArgumentError, match="encode: dtype, fields: not for vectors of tokens"):
        tr.encode(index, model=folder, dtype="int8", fields="title")
    assert tr.encode(index, model=folder, overwrite=True, device="cpu").vectors.manifest.dimension == 16


def test_documents_without_vectors_are_told(index, folder):
    index.add({"new": "q1 d20 d21"}, vectors=False)
    with pytest.warns(MissingVectors, match="lack 1 document"):
        stage = index.bm25() >> index.maxsim()
    with pytest.raises(IndexFault, match="document 'new' has no vectors of tokens"):
        stage.search("q1")
    index.encode_tokens(folder)
    assert len((index.bm25() >> index.maxsim()).search("q1")) == 13


def test_an_interrupted_encoding_goes_on(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(store, "PART", 5)
    index = tr.index(DOCS, tmp_path / "killed", analyzer="whitespace")
    original, calls = LateEncoder.encode_documents, []

    def dying(self, texts):
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, texts)

    monkeypatch.setattr(LateEncoder, "encode_documents", dying)
    with pytest.raises(KeyboardInterrupt):
        index.encode_tokens(folder)
    with pytest.warns(MissingVectors, match="lack 7 documents"):
        index.maxsim()
    index.encode_tokens(folder)
    assert calls == [5, 5, 5, 2]
    assert index.maxsim().vectors.lacking == 0


def test_parts_are_joined_and_score_as_before(tmp_path, folder, monkeypatch):
    docs = {f"n{number}": f"q{1 + number % 3} d{1 + number % 7} d{1 + number % 5}" for number in range(75)}
    plain = tr.index(docs, tmp_path / "plain", analyzer="whitespace")
    plain.encode_tokens(folder)
    monkeypatch.setattr(store, "PART", 2)
    monkeypatch.setattr(store, "JOINED", 3)
    index = tr.index(docs, tmp_path / "joined", analyzer="whitespace")
    assert index.encode_tokens(folder).lacking == 0
    rows = [part.rows for part in index.maxsim().vectors.manifest.parts]
    assert rows == [54, 18, 2, 1]
    assert len(list((index.folder / "tokens" / "colbert").iterdir())) == 1 + 5 * len(rows)
    index.maxsim().vectors.verify()
    for query in ("q1 d2", "q3 d5 d7"):
        expected, found = ((each.bm25() % 100 >> each.maxsim()).search(query) for each in (plain, index))
        assert list(found) == list(expected)
    index.add({"more": "q1 d2"})
    index.merge()  # without encoding
    assert sum(part.rows for part in index.maxsim().vectors.manifest.parts) == 76
    assert (index.bm25() % 100 >> index.maxsim()).search("q3 d5 d7").scores.tolist()[0] == expected.scores[0]


def test_other_models_and_damaged_files_are_refused(tmp_path, index, folder):
    other = str(small_late(tmp_path / "other", seed=3))
    with pytest.raises(IndexFault, match="no vectors of tokens of other"):
        index.maxsim("other")
    with pytest.raises(IndexFault, match="holds vectors of"):
        index.encode_tokens(other, name="colbert")
    with pytest.raises(ModelError, match="its vectors were made by"):
        index.maxsim("colbert", models={"colbert": other})
    index.encode_tokens(other, name="colbert", overwrite=True)
    assert index.maxsim("colbert", models={"colbert": other}).vectors.lacking == 0
    [file] = (index.folder / "tokens" / "colbert").glob("spans.*.npy")
    content = bytearray(file.read_bytes())
    content[-4] ^= 1
    file.write_bytes(content)
    with pytest.raises(IndexDamaged, match="spans"):
        index.maxsim("colbert")


def test_the_command_encodes_tokens_and_a_backup_has_them(tmp_path, folder):
    index = tr.index(DOCS, tmp_path / "index", analyzer="whitespace")
    encoded = tr.encode(index, model=folder, progress=False)
    assert "the tokens of 12 documents have vectors in" in str(encoded)
    assert encoded.record()["dimension"] == 16
    with pytest.raises(tr.errors.CollectionError, match="give an index alone"):
        tr.encode(index, tmp_path / "vectors", model=folder)
    index.backup(tmp_path / "backup.tar")
    restored = tr.restore(tmp_path / "backup.tar", tmp_path / "restored")
    restored = restored if isinstance(restored, tr.Index) else tr.open(tmp_path / "restored")
    assert "colbert" in restored.info()["vectors of tokens"]
    mine, theirs = (each.maxsim("colbert", models={"colbert": folder}) for each in (index, restored))
    candidates = index.bm25().search("q1 d3")
    assert next(mine([candidates])) == next(theirs([candidates]))
    assert pickle.loads(pickle.dumps(mine)) == mine
