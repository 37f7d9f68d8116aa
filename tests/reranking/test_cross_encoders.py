"""Cross-encoders of others: folders without settings of ours."""

from __future__ import annotations

import json
import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import ARCHITECTURES, save_vectors, small_encoder  # noqa: E402
from small_rerankers import pairs, small_reranker  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.rerankers.kinds import Shape  # noqa: E402
from telerank.models.rerankers.reranker import fresh_reranker, load_reranker, save_reranker  # noqa: E402
from telerank.reranking.scorer import Scorer  # noqa: E402

PAIRS = pairs(30, longest=20)
POSITIONS = {"bert": 66, "distilbert": 66, "electra": 66}  # of 66; the others number them from 2 on


def cross_encoder(folder, architecture="bert", *, most=10**30):
    """A folder as the hub has them, its tokenizer without a bound unless ``most`` is one."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    start = small_encoder(folder / "start", architecture)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        theirs = AutoModelForSequenceClassification.from_pretrained(start, num_labels=1)
        theirs.save_pretrained(folder / "theirs")
    tokenizer = AutoTokenizer.from_pretrained(start)
    tokenizer.model_max_length = most
    tokenizer.save_pretrained(folder / "theirs")
    return str(folder / "theirs")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_scores_are_those_of_sentence_transformers_and_lengths_those_of_the_positions(tmp_path, architecture):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = cross_encoder(tmp_path / "bounded", architecture, most=64)
    expected = sentence_transformers.CrossEncoder(folder, device="cpu").predict(PAIRS)
    scores = torch.sigmoid(torch.from_numpy(Scorer(folder).score(PAIRS))).numpy()
    assert scores == pytest.approx(expected, abs=1e-6)
    assert scores.std() > 0.01
    folder = cross_encoder(tmp_path / "unbounded", architecture)
    shape = load_reranker(folder).shape
    longest = POSITIONS.get(architecture, 64)
    assert (shape.max_query, shape.max_length) == (longest // 2, longest)
    long = [("q1 " * 100, "d1 " * 100)]
    assert len(Scorer(folder).score(long)) == 1
    with pytest.raises(ModelError, match=f"pairs of {longest + 1} tokens, but the model has {longest} pos"):
        Scorer(folder, max_length=longest + 1).score(long)


def test_lengths_that_are_asked_for_take_the_place_of_the_folders_own(tmp_path):
    save_reranker(small_reranker(tmp_path), tmp_path / "ours")
    for folder in (str(tmp_path / "ours"), cross_encoder(tmp_path)):
        shape = load_reranker(folder).shape
        shorter = Scorer(folder, max_query=3, max_length=20)
        assert (shorter.reranker.shape.max_query, shorter.reranker.shape.max_length) == (3, 20)
        assert Scorer(folder, max_query=3).reranker.shape.max_length == shape.max_length
        assert Scorer(folder, max_length=60).reranker.shape.max_query == shape.max_query
        long = ("q1 q2 q3 q4 q5", "d1 " * 50)
        cut = ("q1 q2 q3", "d1 " * (20 - 3 - 3))
        assert shorter.score([long]) == pytest.approx(Scorer(folder).score([cut]), abs=1e-5)
        assert shorter.counts.cut == 2 + 50 - 14
        with pytest.raises(ModelError, match="a query of 18 tokens and 3 special ones leave no room"):
            Scorer(folder, max_query=18, max_length=20).score([long])


def test_lengths_of_a_model_over_words_are_changed_alike(tmp_path):
    save_vectors(tmp_path, ["d1", "d2", "q1"], torch.randn(5, 8))
    scorer = Scorer(fresh_reranker(tmp_path, Shape("k-nrm")), max_query=1, max_length=3)
    scorer.score([("q1 d1", "d1 d2 d1")])
    assert scorer.counts.cut == 2


def test_scorers_of_other_lengths_are_other_values(tmp_path):
    model = small_encoder(tmp_path)
    with pytest.raises(ModelError, match=r"expected a re-ranker, got BertModel and no reranker\.json"):
        Scorer(model)
    config = json.loads((model / "config.json").read_text())
    config["architectures"] = ["BertForSequenceClassification"]
    (model / "config.json").write_text(json.dumps(config))
    shorter = Scorer(model, max_length=20)
    assert Scorer(model) != shorter
    assert shorter == Scorer(model, max_length=20) == pickle.loads(pickle.dumps(shorter))
    assert repr(shorter).endswith(", max_length=20)")


def test_a_model_that_scores_no_pairs_is_refused(tmp_path):
    start = small_encoder(tmp_path)
    config = json.loads((start / "config.json").read_text())
    (start / "config.json").write_text(json.dumps(config | {"architectures": None}))
    with pytest.raises(ModelError, match=r"expected a re-ranker, got nothing and no reranker\.json"):
        load_reranker(start)
