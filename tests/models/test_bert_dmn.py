"""BERT-DMN's head: sizes, gates, gradients, and that it learns what only sentences tell."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_features, wider  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.pairs.features import PairFeatures  # noqa: E402
from telerank.models.rerankers.bert_dmn import DmnHead  # noqa: E402
from telerank.models.rerankers.episodic import GATES, EpisodicMemory  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(params=sorted(GATES))
def head(request):
    return DmnHead(12, 8, episodes=3, gate=request.param).eval()


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({}, 2_628_353),  # equation 1, with the gate of Xiong et al.
        ({"gate": "kumar"}, 2_891_010),  # with that of Kumar et al., to which the text refers
        ({"gate": "authors"}, 3_087_362),  # the authors' program
    ],
)
def test_the_paper_counts_roughly_three_million_parameters(settings, parameters):
    assert sum(weight.numel() for weight in DmnHead(768, **settings).parameters()) == parameters


def test_there_is_a_gate_for_each_sentence_in_each_episode_and_none_for_padding(head):
    features = random_features()
    gates = head.with_gates(features)[1]
    assert gates.shape == (5, 3, 6)
    stands = features.sentence_mask.unsqueeze(1).expand_as(gates)
    assert (gates[stands] > 0).all()
    assert (gates[stands] <= 1).all()
    assert not gates[~stands].any()
    padded = head.with_gates(wider(features))[1]
    torch.testing.assert_close(padded[..., :6], gates)
    assert not padded[..., 6:].any()


def test_gates_of_a_softmax_share_one_attention_out():
    gates = DmnHead(12, 8).eval().with_gates(random_features())[1]
    torch.testing.assert_close(gates.sum(2), torch.ones(5, 4))


def test_a_pair_without_a_token_has_a_logit_and_no_gates(head):
    nothing, mask = torch.zeros(1, 1, 12), torch.zeros(1, 1, dtype=torch.bool)
    logits, gates = head.with_gates(PairFeatures(torch.ones(1, 12), nothing, mask, nothing, mask))
    assert logits.isfinite().all()
    assert not gates.any()


def test_gradients_reach_every_feature(head):
    features = random_features()
    for feature in (features.cls, features.query, features.sentences):
        feature.requires_grad_()
    head.train()(features).sum().backward()
    assert features.cls.grad.any(1).all()
    assert torch.equal(features.query.grad.any(2), features.query_mask)
    assert torch.equal(features.sentences.grad.any(2), features.sentence_mask)


def test_gradients_are_defined_where_every_passage_is_one_sentence():
    head = DmnHead(12, 8)
    head(random_features(sentences=1)).sum().backward()
    # an attention over one sentence is one, whatever its score: these are zero, not absent
    assert all(weight.grad is not None for weight in head.parameters())


def test_dropout_is_there_in_training_alone():
    features = random_features()
    head = DmnHead(12, 8, dropout=0.5)
    assert not torch.equal(head(features), head(features))
    head.eval()
    assert torch.equal(head(features), head(features))


def test_dropout_is_over_the_gates_and_in_the_authors_program_over_facts_and_what_is_answered_from():
    memory = EpisodicMemory(8, dropout=1.0)
    facts = torch.nn.utils.rnn.pack_sequence([torch.randn(4, 8), torch.randn(2, 8)], enforce_sorted=False)
    dropped, gates = memory(facts, torch.randn(2, 8))
    assert (gates[0] > 0).all()
    # no gate opens: every memory is the initial state
    torch.testing.assert_close(dropped, memory.memories(torch.zeros(2, 4, 8))[1][0])
    features, head = random_features(), DmnHead(12, 8, dropout=0.5, gate="authors")
    assert head.memory.dropout.p == 0
    head.dropout.p = 0.0
    assert torch.equal(head(features), head(features))  # neither the gates nor the query


def test_what_no_memory_can_be_is_refused():
    gates = "no attention gate is called 'relu'; there are: softmax, sigmoid, kumar, authors"
    with pytest.raises(ModelError, match=gates):
        EpisodicMemory(8, gate="relu")
    with pytest.raises(ModelError, match="at least one, got 0"):
        DmnHead(8, episodes=0)


def test_it_runs_in_lower_precision():
    features = random_features()
    head = DmnHead(12, 8).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(features)
        logits.sum().backward()
    assert all(weight.grad is not None for weight in head.parameters())
    torch.testing.assert_close(logits.float(), head(features), atol=0.02, rtol=0.05)


def test_it_learns_what_only_sentences_tell():
    """A pair is relevant where one of its sentences is the query; the first token's output is empty."""
    topics = torch.nn.functional.normalize(torch.randn(6, 16), dim=1) * 3

    def draw(pairs):
        sentences = torch.stack([torch.randperm(6)[:4] for _ in range(pairs)])  # 3 sentences, 1 other
        relevant = torch.rand(pairs) < 0.5
        query = topics[torch.where(relevant, sentences[:, 1], sentences[:, 3])].unsqueeze(1)
        mask = torch.ones(pairs, 3, dtype=torch.bool)
        features = PairFeatures(torch.zeros(pairs, 16), query, mask[:, :1], topics[sentences[:, :3]], mask)
        return features, relevant

    head = DmnHead(16, 32, episodes=2, dropout=0.0)
    optimiser = torch.optim.Adam(head.parameters(), 5e-3)
    for _ in range(150):
        features, relevant = draw(64)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(head(features), relevant.float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    features, relevant = draw(300)
    assert ((head.eval()(features) > 0) == relevant).float().mean() > 0.9


@pytest.mark.train
def test_a_training_with_two_threads_repeats_to_the_bit():
    """64 pairs of up to 4 sentences: enough items that torch shares the sums of gradients among threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert train_losses(updates=100) == train_losses(updates=100)
    finally:
        torch.set_num_threads(threads)


def train_losses(updates: int) -> list[float]:
    torch.manual_seed(1)
    head, features, losses = DmnHead(16, 256, episodes=1), random_features(64, 16, 4, words=1), []
    optimiser = torch.optim.Adam(head.parameters(), 1e-3)
    for _ in range(updates):
        loss = torch.nn.functional.softplus(-head(features)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses
