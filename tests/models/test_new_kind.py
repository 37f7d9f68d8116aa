"""A new kind of re-ranker is a module with its model and its record, such as this one, and a line."""

from __future__ import annotations

import pytest
import torch

from small_models import save_vectors
from telerank.errors import ModelError
from telerank.models.precision import in_float32
from telerank.models.rerankers import kinds
from telerank.models.rerankers.kinds import ModelExplanation, Shape
from telerank.models.rerankers.reranker import fresh_reranker, load_reranker, save_reranker
from telerank.models.rerankers.word_ranker import (
    WordKind,
    make_embedding,
    split_sides,
)
from telerank.reranking.scorer import Scorer
from telerank.reranking.stage import explain_score
from telerank.training.reranker.config import RerankerStart, RerankerTraining


class SumOfWords(torch.nn.Module):
    """The product of the sums of both texts' vectors."""

    def __init__(self, vectors, scale=1.0):
        super().__init__()
        self.words, self.scale = make_embedding(vectors, frozen=False), scale

    @in_float32
    def forward(self, batch):
        texts = split_sides(batch)
        query, passage = self.words(texts.query).sum(1), self.words(texts.passage).sum(1)
        return self.scale * (query * passage).sum(-1)

    def explain(self, words, batch):  # noqa: ARG002
        return ModelExplanation("the scale", ((self.scale, f"of {len(words.vocabulary)} words"),))


KIND = WordKind(
    SumOfWords,
    training={"model": {"head": {"scale": 2.0}}, "optimisation": {"batch": 7}},
    explain=SumOfWords.explain,
)


@pytest.fixture
def vectors(tmp_path, monkeypatch):
    monkeypatch.setitem(kinds.KINDS, "sum-of-words", __name__)
    words = [f"{letter}{number}" for letter in "qd" for number in range(9)]
    save_vectors(tmp_path / "vectors", words, torch.randn(len(words) + 2, 8))
    return tmp_path / "vectors"


def test_a_new_kind_is_scored_saved_loaded_hashed_and_explained(vectors, tmp_path):
    fresh = fresh_reranker(vectors, Shape("sum-of-words", head={"scale": 0.5}))
    save_reranker(fresh, tmp_path / "saved")
    loaded = load_reranker(tmp_path / "saved")
    pairs = [("q1 q2", "d1. d2 d3."), ("q3", "")]
    assert Scorer(loaded).score(pairs).tolist() == Scorer(fresh).score(pairs).tolist()
    assert loaded.fingerprint == fresh.fingerprint
    other = fresh_reranker(vectors, Shape("sum-of-words", head={"scale": 0.6}))
    assert other.fingerprint != fresh.fingerprint
    assert [part.what for part in explain_score(Scorer(loaded), *pairs[0]).parts[0].parts] == ["of 18 words"]
    assert Scorer(loaded, max_length=2, max_query=1).score([("q1 q2", "d1 d2")]) == pytest.approx(
        Scorer(loaded).score([("q1", "d1")])
    )


def test_a_new_kind_has_no_more_than_it_says(vectors):
    reranker = fresh_reranker(vectors, Shape("sum-of-words"))
    assert not reranker.kind.reads_sentences
    with pytest.raises(ModelError, match="a sum-of-words has no"):
        _ = reranker.transformer
    with pytest.raises(ModelError, match="a sum-of-words has no"):
        _ = reranker.encoder_fingerprint
    with pytest.raises(ModelError, match="a sum-of-words has no head on a frozen encoder"):
        Shape("sum-of-words", frozen=True)
    with pytest.raises(ModelError, match="no settings of a sum-of-words"):
        fresh_reranker(vectors, Shape("sum-of-words", head={"width": 3}))


def test_a_training_of_a_new_kind_has_its_defaults(vectors):
    model = {"kind": "sum-of-words", "start": str(vectors)}
    data = {"collection": "c", "negatives": {"random": True}}
    config = RerankerTraining.model_validate({"data": data, "model": model})
    assert (config.model.head, config.optimisation.batch) == ({"scale": 2.0}, 7)
    with pytest.raises(
        ValueError, match="qa-lstm, k-nrm, conv-knrm, co-pacrr, drmm, parade, qds, tkl, sum-of-words"
    ):
        RerankerStart(kind="product-of-words", start="s")
