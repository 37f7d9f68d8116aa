"""The Dynamic Memory Network against the paper's formulas, sentence by sentence and pair by pair."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_features, random_word_pairs  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.rerankers.bert_dmn import DmnHead  # noqa: E402
from telerank.models.rerankers.dmn import Dmn  # noqa: E402
from telerank.models.rerankers.episodic import AttentionGru, _Recurrence  # noqa: E402

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def gru(layer, inputs):
    """All states of a GRU of torch, by its cell."""
    cell = torch.nn.GRUCell(layer.input_size, layer.hidden_size, dtype=torch.double)
    cell.load_state_dict({name.removesuffix("_l0"): one for name, one in layer.state_dict().items()})
    states, state = [], torch.zeros(1, layer.hidden_size, dtype=torch.double)
    for one in inputs:
        state = cell(one.unsqueeze(0), state)
        states.append(state[0])
    return states


def attention_gru(reader, facts, gates, memory):
    """Equation 1, with the candidate state of a GRU on [s_t; m]."""
    width = reader.state.in_features
    weights = torch.cat([reader.fact.weight, reader.memory.weight], dim=1)
    (w_r, w), (b_r, b) = weights.split(width), reader.fact.bias.split(width)
    u_r, u = reader.state.weight.split(width)
    state = torch.zeros(width, dtype=torch.double)
    for fact, gate in zip(facts, gates, strict=True):
        candidate = torch.cat([fact, memory])
        r = torch.sigmoid(w_r @ candidate + u_r @ state + b_r)
        inner = torch.tanh(w @ candidate + r * (u @ state) + b)
        state = gate * inner + (1 - gate) * state
    return state


def episodes(memory, facts, question, make_gates):
    """The output of the episodic memory for one pair, and its gates."""
    attention, last = memory.attention, question
    w1 = torch.cat([attention.question.weight, attention.memory.weight], dim=1)
    memories, gates = [], []
    for _ in range(memory.episodes):
        scores = []
        for s in facts:
            z = torch.cat([s * question, (s - question).abs(), s * last, (s - last).abs()])
            scores.append(attention.score(torch.tanh(w1 @ z + attention.question.bias)))
        gates.append(make_gates(torch.cat(scores)))
        last = attention_gru(memory.reader, facts, gates[-1], last)
        memories.append(last)
    return gru(memory.memories, memories)[-1], torch.stack(gates)


SHARES = {"softmax": lambda scores: scores.exp() / scores.exp().sum(), "sigmoid": torch.sigmoid}


@pytest.mark.parametrize("gate", sorted(SHARES))
def test_the_head_is_section_3_of_the_paper(gate):
    torch.manual_seed(3)
    features = random_features()
    head = DmnHead(12, 8, episodes=3, gate=gate).double().eval()
    logits, gates = head.with_gates(type(features)(*(_double(one) for one in vars(features).values())))
    for row in range(len(features)):
        sentences = features.sentences[row][features.sentence_mask[row]].double()
        query = features.query[row][features.query_mask[row]].double()
        question = gru(head.query, query)[-1]
        memory, expected = episodes(head.memory, gru(head.sentences, sentences), question, SHARES[gate])
        said = torch.cat([features.cls[row].double(), question, memory])
        answer = head.answer.weight[0] @ said + head.answer.bias[0]
        torch.testing.assert_close(logits[row], answer, **CLOSE)
        torch.testing.assert_close(gates[row, :, : len(sentences)], expected, **CLOSE)


def _double(one):
    return one if one.dtype == torch.bool else one.double()


def test_the_steps_are_equation_1():
    torch.manual_seed(0)
    reader = AttentionGru(6).double()
    lengths, memory = (4, 2, 1), torch.randn(3, 6, dtype=torch.double)
    facts = [torch.randn(length, 6, dtype=torch.double) for length in lengths]
    gates = [torch.rand(length, dtype=torch.double) for length in lengths]
    packed, packed_gates = (torch.nn.utils.rnn.pack_sequence(one) for one in (facts, gates))
    sizes = tuple(packed.batch_sizes.tolist())
    found = reader(reader.project(packed.data), packed_gates.data, memory, sizes)
    expected = [attention_gru(reader, *one) for one in zip(facts, gates, memory, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected), **CLOSE)


def test_the_derivative_of_the_steps_is_theirs():
    torch.manual_seed(0)
    inputs, gates = torch.randn(7, 8, dtype=torch.double), torch.rand(7, dtype=torch.double)
    arguments = [one.requires_grad_() for one in (inputs, gates, torch.randn(8, 4, dtype=torch.double))]
    assert torch.autograd.gradcheck(lambda *one: _Recurrence.apply(*one, (4, 2, 1)), arguments)


def test_dmn_over_words_is_section_3_1_of_the_paper():
    torch.manual_seed(2)
    pairs, vectors = random_word_pairs()
    model = Dmn(vectors, 10, episodes=2).double().eval()
    logits = model(batch_of(pairs, 0))
    for row, pair in enumerate(pairs):
        words = model.words(torch.from_numpy(pair.ids).long())
        query, passage = words[pair.parts == 1], words[pair.parts == 2]
        numbers = pair.sentences[pair.parts == 2].tolist()
        states = gru(model.passage, passage if len(passage) else torch.zeros(1, 8, dtype=torch.double))
        ends = [at for at, one in enumerate(numbers) if numbers[at + 1 : at + 2] != [one]]
        facts = [states[at] for at in ends] if len(set(numbers)) > 1 else states
        question = gru(model.question, query)[-1]
        memory, _ = episodes(model.memory, facts, question, SHARES["softmax"])
        answer = model.answer.weight[0] @ torch.cat([question, memory]) + model.answer.bias[0]
        torch.testing.assert_close(logits[row], answer, **CLOSE)
