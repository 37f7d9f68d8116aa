"""Sparse vectors of a model in a file: ``tr.encode(docs, "OUT.jsonl", model=…)``."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import telerank as tr
from small_models import small_masked, small_weigher
from telerank.errors import ArgumentError, LongTexts, ModelError
from telerank.sparse.weights import vector_writing
from telerank.sparse.weights.encoder import TermEncoder
from telerank.sparse.weights.vectors import read_vectors

TEXTS = {f"d{number}": f"d{number} q{number} x{number % 3} {'d1 ' * 4 * number}" for number in range(22)}


@pytest.fixture(scope="module")
def splade(tmp_path_factory):
    return small_masked(tmp_path_factory.mktemp("splade") / "masked", 0)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """The texts in an index without weights."""
    return tr.index(TEXTS, tmp_path_factory.mktemp("texts") / "idx", analyzer="standard")


def files_of(index):
    """The bytes of everything that an index has of its weights, by name."""
    [segment] = (index.folder / "segments").iterdir()
    return {file.name: file.read_bytes() for file in segment.iterdir() if "weights" in file.name}


def test_an_index_of_the_file_is_that_of_the_model(splade, counted, tmp_path):
    written = tr.encode(counted, tmp_path / "out.jsonl.gz", model=str(splade))
    vectors = {vector.docno: vector.weights for vector in read_vectors(written.output)}
    assert list(vectors) == list(TEXTS)
    assert (written.documents, written.weights) == (22, sum(map(len, vectors.values())))
    assert written.cut == 7
    assert str(written).endswith("\n7 documents longer than 64 tokens: the terms before are weighed")
    record = json.loads((tmp_path / "out.jsonl.gz.json").read_text())
    assert record["settings"] == dict(written.settings) == written.record()["settings"]
    one = tr.index(TEXTS, tmp_path / "of-file", weights=written.output)
    with pytest.warns(LongTexts, match="7 documents longer than 64 tokens"):
        other = tr.index(TEXTS, tmp_path / "of-model", weights_model=str(splade))
    assert files_of(one) == files_of(other)
    assert files_of(one)
    found = one.impact(str(splade)).search("d3 q3")
    assert list(found) == list(other.impact().search("d3 q3"))


def test_an_interrupted_encoding_goes_on_to_the_same_bytes(splade, counted, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_writing, "_WINDOW", 4)
    expected = tr.encode(counted, tmp_path / "whole.jsonl", model=str(splade)).output.read_bytes()
    encode, encoded = TermEncoder.encode, []

    def count(self, texts, *, queries):
        if len(encoded) == stop:
            raise KeyboardInterrupt
        encoded.append(len(texts))
        return encode(self, texts, queries=queries)

    monkeypatch.setattr(TermEncoder, "encode", count)
    stop = 3
    with pytest.raises(KeyboardInterrupt):
        tr.encode(counted, tmp_path / "out.jsonl", model=str(splade))
    assert not (tmp_path / "out.jsonl").exists()
    stop = -1
    tr.encode(counted, tmp_path / "out.jsonl", model=str(splade))
    assert encoded == [4, 4, 4, 4, 4, 2]
    assert (tmp_path / "out.jsonl").read_bytes() == expected
    assert not (tmp_path / "out.jsonl.unfinished").exists()
    with pytest.raises(ArgumentError, match=r"out\.jsonl: is there already: overwrite it"):
        tr.encode(counted, tmp_path / "out.jsonl", model=str(splade))


def test_words_are_those_of_an_index(counted, tmp_path):
    folder = small_weigher(tmp_path / "deepct")
    with pytest.raises(ModelError, match="weighs the words of an index: give an index"):
        tr.encode(tr.piaf(), tmp_path / "out.jsonl", model=str(folder))
    written = tr.encode(counted, tmp_path / "out.jsonl", model=str(folder))
    one = tr.index(TEXTS, tmp_path / "of-file", analyzer="standard", weights=written.output)
    with pytest.warns(LongTexts, match="7 documents longer than 64 tokens"):
        other = tr.index(TEXTS, tmp_path / "of-model", analyzer="standard", weights_model=str(folder))
    assert files_of(one) == files_of(other)
    assert written.settings["analyzer"] == str(counted.analyzer)


def test_wrong_calls_are_refused(splade, counted, tmp_path):
    with pytest.raises(ArgumentError, match="encode: dtype, fields: not for a file of sparse vectors"):
        tr.encode(counted, tmp_path / "out.jsonl", model=str(splade), dtype="int8", fields="title")
