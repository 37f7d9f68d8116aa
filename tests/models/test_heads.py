"""Heads and models over word vectors: sizes, gates, gradients, and that each learns (tests/parity has formulas)."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from random_pairs import random_features, random_word_pairs
from telerank.errors import ModelError
from telerank.models.long.tkl import Tkl
from telerank.models.losses import max_margin
from telerank.models.pairs.pair import PairFeatures, batch_of
from telerank.models.pairs.words import PADDING, Words
from telerank.models.rerankers.bert_dmn import DmnHead
from telerank.models.rerankers.co_pacrr import CoPacrr
from telerank.models.rerankers.conv_knrm import ConvKnrm
from telerank.models.rerankers.dmn import Dmn
from telerank.models.rerankers.drmm import Drmm
from telerank.models.rerankers.episodic import GATES, EpisodicMemory
from telerank.models.rerankers.knrm import Knrm
from telerank.models.rerankers.qa_lstm import QaLstm

HEADS = {gate: partial(DmnHead, 12, 8, episodes=3, gate=gate) for gate in sorted(GATES)}
OVER_WORDS = {
    "dmn": partial(Dmn, hidden=6, episodes=2),
    "qa-lstm": partial(QaLstm, hidden=6),
    "k-nrm": Knrm,
    "conv-knrm": partial(ConvKnrm, filters=6),
    "co-pacrr": partial(CoPacrr, frozen=False),
    "drmm": partial(Drmm, frozen=False),
    "tkl": partial(Tkl, inner=6),
}


@pytest.mark.parametrize("kind", [*HEADS, *OVER_WORDS])
def test_gradients_reach_every_parameter(kind):
    pairs, vectors = random_word_pairs()
    model = HEADS[kind]() if kind in HEADS else OVER_WORDS[kind](vectors)
    scores = model(random_features() if kind in HEADS else batch_of(pairs, PADDING))
    assert scores.isfinite().all()
    scores.sum().backward()
    # a softmax ignores a number that is added to all scores, which the authors' program learns nevertheless
    silent = {"memory.attention.score.bias"} if kind == "authors" else set()
    assert {name for name, weight in model.named_parameters() if not weight.grad.any()} <= silent


@pytest.mark.parametrize("kind", sorted(OVER_WORDS))
def test_a_query_without_a_known_word_leaves_gradients_finite(kind):
    texts = Words([f"w{number}" for number in range(6)])
    model = OVER_WORDS[kind](torch.cat([torch.zeros(2, 16), torch.randn(6, 16)]))
    (passage,) = texts.passages(["w1 w2"], [[(0, 5)]])
    pairs = [texts.pair(own, passage) for own in texts.queries(["unknown", "w1 unknown"])]
    scores = model(batch_of(pairs, PADDING))
    scores.sum().backward()
    assert scores.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in model.parameters() if weight.grad is not None)


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
    assert torch.equal(gates > 0, features.sentence_mask.unsqueeze(1).expand_as(gates))
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


@pytest.fixture
def pairs():
    return random_word_pairs()[0]


@pytest.mark.parametrize("kind", [Dmn, QaLstm, Knrm])
def test_the_vectors_of_the_words_that_come_learn_unless_they_are_frozen(kind, pairs):
    vectors, batch = random_word_pairs()[1], batch_of(pairs, PADDING)
    model = kind(vectors)
    model(batch).sum().backward()
    moved = set(model.words.weight.grad.any(1).nonzero().view(-1).tolist())
    come = set(batch.input_ids.unique().tolist()) - {PADDING}
    assert moved <= come
    assert len(moved) > len(come) / 2
    frozen = kind(vectors, frozen=True)
    frozen(batch).sum().backward()
    assert frozen.words.weight.grad is None
    assert torch.equal(frozen.words.weight, vectors)
    assert frozen.words.weight.data_ptr() != vectors.data_ptr()


def test_vectors_without_the_special_rows_are_refused():
    with pytest.raises(ModelError, match="expected word vectors as load_vectors gives them"):
        Knrm(torch.ones(5, 3))


def test_the_papers_sizes_are_the_defaults():
    vectors = torch.zeros(2, 300)
    assert (QaLstm(vectors).lstm.hidden_size, QaLstm(vectors).dropout.p) == (256, 0.5)
    dmn = Dmn(vectors)
    assert (dmn.passage.hidden_size, dmn.memory.episodes, dmn.dropout.p) == (256, 4, 0.1)
    assert Knrm(vectors).weight.in_features == 11


def test_gates_of_the_dmn_are_by_sentence_also_where_each_word_is_a_fact(pairs):
    model = Dmn(random_word_pairs()[1], 6, episodes=2).eval()
    batch = batch_of(pairs, PADDING)
    logits, gates = model.with_gates(batch)
    assert torch.equal(logits, model(batch))
    counts = (batch.sentences.amax(1) + 1).tolist()
    assert counts == [0, 2, 3, 4, 1, 2]
    assert gates.shape == (6, 2, 4)
    for row, count in enumerate(counts):
        torch.testing.assert_close(gates[row].sum(1), torch.full((2,), float(count > 0)))
        assert (gates[row, :, :count] > 0).all()
        assert not gates[row, :, count:].any()


def test_attention_of_the_qa_lstm_stands_at_the_words_of_the_passage(pairs):
    model = QaLstm(random_word_pairs()[1], 6).eval()
    batch = batch_of(pairs, PADDING)
    cosines, attention = model.with_attention(batch)
    assert torch.equal(cosines, model(batch))
    assert torch.equal(attention > 0, batch.parts == 2)
    torch.testing.assert_close(attention.sum(1), (batch.parts == 2).any(1).float())


LEARNERS = {
    "dmn": (lambda vectors: Dmn(vectors, 32, episodes=2, dropout=0.0), "prob"),
    "qa-lstm": (lambda vectors: QaLstm(vectors, 16, dropout=0.1), "logit"),
    "k-nrm": (Knrm, "logit"),
    "conv-knrm": (lambda vectors: ConvKnrm(vectors, 16, 2), "logit"),
    "co-pacrr": (lambda vectors: CoPacrr(vectors, 16, rows=2, filters=4), "logit"),
    "drmm": (Drmm, "logit"),
    "tkl": (lambda vectors: Tkl(vectors, inner=8, layers=1), "logit"),
}


@pytest.mark.parametrize("kind", sorted(LEARNERS))
def test_each_learns_to_rank_the_passage_with_the_word_of_the_query_first(kind):
    make, of = LEARNERS[kind]
    names = [f"w{number}" for number in range(6)]
    texts = Words(names)
    model = make(torch.cat([torch.zeros(2, 16), torch.randn(6, 16)]))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)

    def draw(groups):
        """Of each query, of one word, a passage of two sentences with it and one without: (groups, 2)."""
        pairs = []
        for _ in range(groups):
            query, *others = torch.randperm(6).tolist()
            for words in ((others[0], query), (others[1], others[2])):
                first, second = (names[words[place]] for place in torch.randperm(2).tolist())
                (passage,) = texts.passages([f"{first} {second}"], [[(0, 2), (3, 5)]])
                pairs.append(texts.pair(texts.queries([names[query]])[0], passage))
        return model(batch_of(pairs, PADDING)).view(groups, 2)

    labels = torch.tensor([[1.0, 0.0]])
    for _ in range(60):
        loss = max_margin(draw(24), labels.expand(24, 2), of=of)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()
    logits = draw(100)
    assert (logits[:, 0] > logits[:, 1]).float().mean() > 0.85
