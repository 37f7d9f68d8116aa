"""Static encoders have the vectors of the libraries that write them, need no torch, and trust no folder."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import telerank as tr
from small_static import WORDS, small_model2vec, small_pieces, small_sentence_model, small_tables
from telerank.dense.encoder import TorchEncoder, open_encoder
from telerank.dense.static import StaticEncoder, find_static
from telerank.errors import ModelError

pytest.importorskip("tokenizers")
pytest.importorskip("safetensors")

TEXTS = [
    "word1 word2",
    "word3 word3 word4s",
    "",
    "nothing is known",
    "word5 unknown word6",
    " ".join(WORDS),
]


def expected(folder, kind: str, most: int = 512) -> np.ndarray:
    """The formula of Model2Vec, piece by piece in float64."""
    tables = small_tables(kind)
    table = tables["embeddings"].astype(np.float64)
    rows = tables.get("mapping", np.arange(len(table)))
    weights = tables.get("weights", np.ones(len(rows)))
    vectors = []
    for text in TEXTS:
        pieces = [
            piece for piece in small_pieces().encode(text, add_special_tokens=False).ids[:most] if piece
        ]
        vector = sum((weights[p] * table[rows[p]] for p in pieces), np.zeros(table.shape[1]))
        vectors.append(vector / max(1, len(pieces)))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.array(vectors) / np.where(norms > 0, norms, 1)


@pytest.mark.parametrize("kind", ["plain", "float16", "int8", "quantised"])
def test_a_vector_is_the_weighted_mean_of_the_pieces(tmp_path, kind):
    encoder = open_encoder(str(small_model2vec(tmp_path / kind, kind)))
    assert isinstance(encoder, StaticEncoder)
    tokens, cut = encoder.tokenize(TEXTS)
    vectors = encoder.encode_tokens(tokens)
    assert np.abs(vectors - expected(tmp_path, kind)).max() < 1e-6
    assert not vectors[2:4].any()  # neither has a known piece
    assert cut == 0
    assert (encoder.encode_queries(TEXTS).vectors == vectors).all()


def test_texts_are_cut_where_model2vec_cuts_them(tmp_path):
    folder = small_model2vec(tmp_path / "short", max_length=3)
    encoder = open_encoder(str(folder))
    tokens, cut = encoder.tokenize(TEXTS)
    # 18 characters are read, of which 3 pieces are kept: three of four, and no "word6", whose digit is cut
    assert [len(ids) for ids in tokens] == [2, 3, 0, 0, 1, 3]
    assert cut == 3
    whole = open_encoder(str(small_model2vec(tmp_path / "whole", max_length=None)))
    assert len(whole.tokenize(TEXTS)[0][-1]) == len(WORDS)
    assert whole.fingerprint != encoder.fingerprint


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_vectors_are_those_that_sentence_transformers_compares(tmp_path, normalise, similarity):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    prompts = {"query": "word7 ", "document": "word8 "}
    folder = small_sentence_model(
        tmp_path / "model", normalise=normalise, prompts=prompts, similarity=similarity
    )
    encoder = open_encoder(str(folder))
    other = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    queries = encoder.encode_queries(TEXTS).vectors
    documents = encoder.encode_tokens(encoder.tokenize(TEXTS)[0])
    theirs = other.encode_query(TEXTS), other.encode_document(TEXTS)
    assert np.abs(queries @ documents.T - other.similarity(*theirs).numpy()).max() < 1e-6
    if normalise or similarity == "dot":
        assert np.abs(queries - theirs[0]).max() < 1e-6
        assert np.abs(documents - theirs[1]).max() < 1e-6


def test_a_folder_of_model2vec_has_the_same_vectors_in_sentence_transformers(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = small_model2vec(tmp_path / "model", "quantised", normalize=False)
    other = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    texts = [TEXTS[0], TEXTS[1], TEXTS[5]]  # without unknown words, which only Model2Vec leaves out
    vectors = open_encoder(str(folder)).encode_queries(texts).vectors
    assert np.abs(vectors - other.encode(texts)).max() < 1e-6


def test_the_fingerprint_is_that_of_table_pieces_and_settings(tmp_path):
    first = open_encoder(str(small_model2vec(tmp_path / "first")))
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    same = open_encoder(str(tmp_path / "second"))
    assert same.fingerprint == first.fingerprint
    others = [
        small_model2vec(tmp_path / "other-table", "float16"),
        small_model2vec(tmp_path / "no-norm", normalize=False),
    ]
    small_pieces("[PAD]").save(str(small_model2vec(tmp_path / "pieces") / "tokenizer.json"))
    prints = {open_encoder(str(folder)).fingerprint for folder in (*others, tmp_path / "pieces")}
    assert len(prints | {first.fingerprint}) == 4
    assert pickle.loads(pickle.dumps(first)).fingerprint == first.fingerprint


def damage(folder, what: str) -> None:
    from safetensors.numpy import save_file

    tables = small_tables("quantised")
    changed = {
        "no vectors": {"other": tables["embeddings"]},
        "three dimensions": {"embeddings": np.zeros((2, 2, 2), np.float32)},
        "no rows": {"embeddings": np.zeros((0, 4), np.float32)},
        "other type": {"embeddings": tables["embeddings"].astype(np.int64)},
        "nan": {"embeddings": np.full((63, 4), np.nan, np.float32)},
        "infinite": {"embeddings": np.full((63, 4), np.float64(1e300))},
        "few rows": {"embeddings": np.zeros((5, 4), np.float32)},
        "mapping beyond": {**tables, "mapping": np.full(63, 20, np.int32)},
        "mapping below": {**tables, "mapping": np.full(63, -1, np.int32)},
        "mapping of floats": {**tables, "mapping": np.zeros(63, np.float32)},
        "few weights": {**tables, "weights": np.ones(62, np.float32)},
        "nan weight": {**tables, "weights": np.full(63, np.nan, np.float32)},
    }
    if what in changed:
        save_file(changed[what], folder / "model.safetensors")
    elif what == "no tensors":
        (folder / "model.safetensors").write_bytes(b"\xff" * 100)
    elif what == "longer than the file":
        header = json.dumps(
            {"embeddings": {"dtype": "F32", "shape": [1 << 40, 4], "data_offsets": [0, 1 << 44]}}
        )
        content = len(header).to_bytes(8, "little") + header.encode()
        (folder / "model.safetensors").write_bytes(content)
    elif what == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    elif what == "tokenizer":
        (folder / "tokenizer.json").write_text("[1")
    elif what == "length":
        (folder / "config.json").write_text('{"model_type": "model2vec", "max_length": -1}')
    elif what == "outside":
        (folder / "modules.json").write_text(
            '[{"type": "sentence_transformers.models.StaticEmbedding", "path": "../x"}]'
        )
    else:
        modules = [
            {"type": f"sentence_transformers.models.{name}", "path": ""}
            for name in ("StaticEmbedding", "Dense")
        ]
        (folder / "modules.json").write_text(json.dumps(modules))


WRONG = {
    "no vectors": "expected embeddings, got other",
    "three dimensions": r"shape \(2, 2, 2\)",
    "no rows": r"shape \(0, 4\)",
    "other type": "I64",
    "nan": "not finite",
    "infinite": "not finite",
    "few rows": "pieces up to number 62, but model.safetensors has vectors of 5",
    "mapping beyond": "beyond 20 vectors",
    "mapping below": "beyond 20 vectors",
    "mapping of floats": "mapping of shape",
    "few weights": "a weight for each piece",
    "nan weight": "not finite",
    "no tensors": "model.safetensors",
    "longer than the file": "model.safetensors",
    "no tokenizer": "tokenizer.json",
    "tokenizer": "tokenizer.json",
    "length": "max_length",
    "outside": "the name of a folder beside it",
    "other modules": "expected StaticEmbedding and perhaps Normalize, got StaticEmbedding, Dense",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_folder_is_not_trusted(tmp_path, what):
    folder = small_model2vec(tmp_path / "model")
    damage(folder, what)
    with pytest.raises(ModelError, match=WRONG[what]) as raised:
        open_encoder(str(folder)).encode_queries(["word1"])
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_folders_are_no_static_encoders(tmp_path):
    assert find_static(str(tmp_path)) is None
    assert find_static(str(tmp_path / "absent")) is None
    assert find_static("minilm") is None
    assert isinstance(open_encoder(str(tmp_path)), TorchEncoder)


def test_an_index_has_vectors_of_a_static_encoder_that_follow_it(tmp_path):
    model = str(small_model2vec(tmp_path / "static"))
    index = tr.index({"1": "word1 word2", "2": "word3", "3": "word4 word1"}, tmp_path / "index")
    index.encode(model)
    assert index.dense().search("word3").docnos[0] == "2"
    index.add({"4": "word9 word9"})
    assert index.dense().search("word9").docnos[0] == "4"
    reopened = tr.open(tmp_path / "index").dense()
    found = reopened.search("word9")
    assert found.docnos[0] == "4"
    assert reopened.explain("word9", "4").value == pytest.approx(found.scores[0], abs=1e-6)
    encoded = tr.encode(tmp_path / "index", model=model)
    assert "are in" in str(encoded)


PROGRAM = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = None
import telerank as tr
index = tr.index({"1": "word1 word2", "2": "word3"}, sys.argv[2])
print(tr.encode(sys.argv[2], model=sys.argv[1], progress=False).vectors.dimension)
print(tr.open(sys.argv[2]).dense().search("word3").docnos)
"""


@pytest.mark.process
def test_no_torch_is_needed(tmp_path):
    model = str(small_model2vec(tmp_path / "static"))
    command = [sys.executable, "-c", PROGRAM, model, str(tmp_path / "index")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["16", "('2', '1')"]
