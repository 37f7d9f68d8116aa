"""DMN, QA-LSTM and K-NRM: sizes, explanations, and that each learns to match words."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_word_pairs  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.models.losses.ranking import max_margin  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.pairs.words import PADDING, UNKNOWN, Words  # noqa: E402
from telerank.models.rerankers.dmn import Dmn  # noqa: E402
from telerank.models.rerankers.knrm import Knrm  # noqa: E402
from telerank.models.rerankers.qa_lstm import QaLstm  # noqa: E402


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


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


def test_the_first_kernel_counts_the_words_that_are_the_same():
    texts = Words(["cat", "dog", "bird"])
    model = Knrm(torch.cat([torch.zeros(1, 3), torch.ones(1, 3), torch.eye(3)]))
    passages = ["cat dog", "cat cat", "dog dog", "fish fish"]
    pairs = [texts.pair(texts.queries(["cat fish"])[0], passage) for passage in texts.passages(passages)]
    scores, kernels = model.with_kernels(batch_of(pairs, PADDING))
    assert scores.shape == (4,)
    nothing = torch.tensor(1e-10).log()
    expected = 0.01 * torch.stack([torch.tensor(0.0), torch.tensor(2.0).log(), nothing, nothing])
    # an unknown word of the query is like no word, not even the same unknown word
    torch.testing.assert_close(kernels[:, 0], expected)
    assert (pairs[0].ids[:2] == UNKNOWN).tolist() == [False, True]


LEARNERS = {
    "dmn": (lambda vectors: Dmn(vectors, 32, episodes=2, dropout=0.0), "prob"),
    "qa-lstm": (lambda vectors: QaLstm(vectors, 16, dropout=0.1), "logit"),
    "k-nrm": (Knrm, "logit"),
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
