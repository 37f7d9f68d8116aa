"""What every head and every model over word vectors obeys, whatever it computes."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_features, random_word_pairs, rows_of, wider  # noqa: E402
from telerank.models.pairs.pair import PairBatch, batch_of  # noqa: E402
from telerank.models.pairs.words import PADDING  # noqa: E402
from telerank.models.rerankers.bert_dmn import DmnHead  # noqa: E402
from telerank.models.rerankers.dmn import Dmn  # noqa: E402
from telerank.models.rerankers.episodic import GATES  # noqa: E402
from telerank.models.rerankers.knrm import Knrm  # noqa: E402
from telerank.models.rerankers.qa_lstm import QaLstm  # noqa: E402

HEADS = {gate: partial(DmnHead, 12, 8, episodes=3, gate=gate) for gate in sorted(GATES)}
OVER_WORDS = {"dmn": partial(Dmn, hidden=6, episodes=2), "qa-lstm": partial(QaLstm, hidden=6), "k-nrm": Knrm}


@pytest.fixture(params=[*HEADS, *OVER_WORDS])
def law(request):
    """A model, its batch, the batch of some rows alone, and the whole batch with more padding."""
    torch.manual_seed(0)
    if request.param in HEADS:
        features = random_features()
        return HEADS[request.param]().eval(), features, partial(rows_of, features), wider(features)
    pairs, vectors = random_word_pairs()
    whole = batch_of(pairs, PADDING)
    padded = {
        name: torch.nn.functional.pad(field, (0, 3), value=-1 if name == "sentences" else 0)
        for name, field in vars(whole).items()
    }
    model = OVER_WORDS[request.param](vectors).eval()
    return model, whole, lambda rows: batch_of([pairs[row] for row in rows], PADDING), PairBatch(**padded)


def test_a_pair_has_the_same_finite_score_alone_in_any_batch_and_with_any_padding(law):
    model, whole, take, padded = law
    scores = model(whole)
    assert scores.shape == (len(scores),)
    assert scores.isfinite().all()
    torch.testing.assert_close(model(padded), scores)
    torch.testing.assert_close(torch.cat([model(take([row])) for row in range(len(scores))]), scores)
    torch.testing.assert_close(model(take([3, 0, 4, 2, 1])), scores[[3, 0, 4, 2, 1]])


def test_gradients_reach_every_parameter(law):
    model, whole, _, _ = law
    model.train()(whole).sum().backward()
    # a softmax ignores a number that is added to all scores, which the authors' program learns nevertheless
    silent = {"memory.attention.score.bias"} if getattr(model, "authors", False) else set()
    assert {name for name, weight in model.named_parameters() if not weight.grad.any()} <= silent
