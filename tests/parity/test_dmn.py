"""The Dynamic Memory Network against the paper's formulas, sentence by sentence and pair by pair."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_features, random_word_pairs  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.rerankers.bert_dmn import DmnHead  # noqa: E402
from telerank.models.rerankers.dmn import Dmn  # noqa: E402
from telerank.models.rerankers.episodic import GATES, AttentionGru  # noqa: E402

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def gru(layer, inputs, ending=""):
    """All states of a GRU of torch, by its cell."""
    cell = torch.nn.GRUCell(layer.input_size, layer.hidden_size, dtype=torch.double)
    named = {name: weights for name, weights in layer.state_dict().items() if name.endswith(f"_l0{ending}")}
    cell.load_state_dict({name.removesuffix(f"_l0{ending}"): weights for name, weights in named.items()})
    states, state = [], torch.zeros(1, layer.hidden_size, dtype=torch.double)
    for one in inputs:
        state = cell(one.unsqueeze(0), state)
        states.append(state[0])
    return states


def both_ways(layer, inputs):
    """The sums of the states of both directions."""
    backward = gru(layer, list(inputs)[::-1], "_reverse")[::-1]
    return [one + other for one, other in zip(gru(layer, inputs), backward, strict=True)]


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


def attention_gru_of_the_authors(reader, facts, gates, memory):
    """Equation 1 over the facts alone; the first state is the memory, the biases are the states'."""
    width = reader.state.in_features
    (w_r, w), (u_r, u) = reader.fact.weight.split(width), reader.state.weight.split(width)
    b_r, b = reader.state.bias.split(width)
    state = memory
    for fact, gate in zip(facts, gates, strict=True):
        r = torch.sigmoid(w_r @ fact + u_r @ state + b_r)
        state = gate * torch.tanh(w @ fact + r * (u @ state + b)) + (1 - gate) * state
    return state


def xiong_score(attention, s, q, m):
    """W_2 tanh(W_1 [s ∘ q; |s - q|; s ∘ m; |s - m|] + b_1)."""
    w1 = torch.cat([attention.question.weight, attention.memory.weight], dim=1)
    z = torch.cat([s * q, (s - q).abs(), s * m, (s - m).abs()])
    return attention.score(torch.tanh(w1 @ z + attention.question.bias))


def kumar_score(attention, s, q, m):
    """W_2 tanh(W_1 z + b_1) + b_2; the columns of W_1 are in the order of z here."""
    w_b = attention.bilinear.weight.T
    z = [s, q, s * q, (s - q).abs(), (s @ w_b @ q).view(1)]
    z += [m, s * m, (s - m).abs(), (s @ w_b @ m).view(1)]
    w1 = torch.cat([attention.question.weight, attention.memory.weight], dim=1)
    return attention.score(torch.tanh(w1 @ torch.cat(z) + attention.question.bias))


def episodes(memory, facts, question, gate):
    """The output of the episodic memory for one pair, and its gates."""
    score = kumar_score if gate == "kumar" else xiong_score
    last, memories, gates = question, [], []
    for _ in range(memory.episodes):
        scores = torch.cat([score(memory.attention, fact, question, last) for fact in facts])
        gates.append(
            scores.exp() / scores.exp().sum() if gate in ("softmax", "authors") else torch.sigmoid(scores)
        )
        if gate == "authors":
            state = attention_gru_of_the_authors(memory.reader, facts, gates[-1], last)
            last = memory.update(torch.cat([last, state, question])).clamp(min=0)
        else:
            last = attention_gru(memory.reader, facts, gates[-1], last)
        memories.append(last)
    output = last if gate == "authors" else gru(memory.memories, memories)[-1]
    return output, torch.stack(gates)


@pytest.mark.parametrize("gate", sorted(GATES))
def test_the_head_is_section_3_of_the_paper(gate):
    torch.manual_seed(3)
    features = random_features()
    head = DmnHead(12, 8, episodes=3, gate=gate).double().eval()
    logits, gates = head.with_gates(type(features)(*(_double(one) for one in vars(features).values())))
    for row in range(len(features)):
        sentences = features.sentences[row][features.sentence_mask[row]].double()
        query = features.query[row][features.query_mask[row]].double()
        question = gru(head.query, query)[-1]
        facts = (both_ways if gate == "authors" else gru)(head.sentences, sentences)
        memory, expected = episodes(head.memory, facts, question, gate)
        said = torch.cat([features.cls[row].double(), question, memory])
        answer = head.answer.weight[0] @ said + head.answer.bias[0]
        torch.testing.assert_close(logits[row], answer, **CLOSE)
        torch.testing.assert_close(gates[row, :, : len(sentences)], expected, **CLOSE)


def _double(one):
    return one if one.dtype == torch.bool else one.double()


def test_the_derivative_of_the_steps_is_theirs():
    torch.manual_seed(0)
    reader = AttentionGru(4, from_memory=True).double()
    projected, gates = torch.randn(7, 8, dtype=torch.double), torch.rand(7, dtype=torch.double)
    arguments = [projected, gates, torch.randn(4, 4, dtype=torch.double), *reader.state.parameters()]

    def steps(projected, gates, memory, weight, bias):
        weights = {"state.weight": weight, "state.bias": bias}
        return torch.func.functional_call(reader, weights, (projected, gates, memory, (4, 2, 1)))

    assert torch.autograd.gradcheck(steps, [one.detach().requires_grad_() for one in arguments])


@pytest.mark.parametrize("gate", ["softmax", "kumar", "authors"])
def test_dmn_over_words_is_section_3_1_of_the_paper(gate):
    torch.manual_seed(2)
    pairs, vectors = random_word_pairs()
    model = Dmn(vectors, 10, episodes=2, gate=gate).double().eval()
    logits = model(batch_of(pairs, 0))
    for row, pair in enumerate(pairs):
        words = model.words(torch.from_numpy(pair.ids).long())
        query, passage = words[pair.parts == 1], words[pair.parts == 2]
        numbers = pair.sentences[pair.parts == 2].tolist()
        if not len(passage):
            passage, numbers = torch.zeros(1, 8, dtype=torch.double), [0]
        if gate == "authors":
            of = torch.tensor(numbers)
            means = [passage[of == number].mean(0) for number in sorted(set(numbers))]
            facts = both_ways(model.passage, means)
        else:
            states = gru(model.passage, passage)
            ends = [at for at, one in enumerate(numbers) if numbers[at + 1 : at + 2] != [one]]
            facts = [states[at] for at in ends] if len(set(numbers)) > 1 else states
        question = gru(model.question, query)[-1]
        memory, _ = episodes(model.memory, facts, question, gate)
        answer = model.answer.weight[0] @ torch.cat([question, memory]) + model.answer.bias[0]
        torch.testing.assert_close(logits[row], answer, **CLOSE)
