"""QA-LSTM and K-NRM against their formulas, pair by pair."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_word_pairs  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.pairs.words import PADDING, UNKNOWN  # noqa: E402
from telerank.models.rerankers.knrm import Knrm  # noqa: E402
from telerank.models.rerankers.qa_lstm import QaLstm  # noqa: E402


def test_knrm_is_its_formula():
    pairs, vectors = random_word_pairs(seed=4)
    model = Knrm(vectors).double()
    scores = model(batch_of(pairs, PADDING))
    means = [1.0] + [0.9 - 0.2 * number for number in range(10)]
    deviations = [1e-3] + [0.1] * 10
    table, weights = vectors.double().tolist(), model.weight.weight[0].tolist()
    for pair, score in zip(pairs, scores.tolist(), strict=True):
        query = [row for row, part in zip(pair.ids, pair.parts, strict=True) if part == 1 and row != UNKNOWN]
        passage = [
            row for row, part in zip(pair.ids, pair.parts, strict=True) if part == 2 and row != UNKNOWN
        ]
        total = model.weight.bias.item()
        for mean, deviation, weight in zip(means, deviations, weights, strict=True):
            for i in query:
                near = [
                    math.exp(-((cosine(table[i], table[j]) - mean) ** 2) / (2 * deviation**2))
                    for j in passage
                ]
                total += weight * 0.01 * math.log(max(1e-10, sum(near)))
        assert score == pytest.approx(math.tanh(total), rel=1e-6)


def cosine(one, other):
    inner = sum(a * b for a, b in zip(one, other, strict=True))
    return inner / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def lstm(cells, words):
    """The states of a bidirectional LSTM over one text, (words, 2 hidden), by its cells."""
    directions = []
    for cell, order in zip(cells, (words, words.flip(0)), strict=True):
        state, states = None, []
        for word in order:
            state = cell(word.unsqueeze(0), state)
            states.append(state[0][0])
        directions.append(torch.stack(states))
    return torch.cat([directions[0], directions[1].flip(0)], dim=1)


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_qa_lstm_is_its_formula(pooling):
    torch.manual_seed(0)
    pool = {"max": lambda states: states.amax(0), "mean": lambda states: states.mean(0)}[pooling]
    pairs, vectors = random_word_pairs(seed=4)
    model = QaLstm(vectors, 5, pooling=pooling).double().eval()
    cosines = model(batch_of(pairs, PADDING))
    cells = []
    for ending in ("_l0", "_l0_reverse"):
        cell = torch.nn.LSTMCell(8, 5, dtype=torch.double)
        cell.load_state_dict(
            {name: model.lstm.get_parameter(f"{name}{ending}") for name in cell.state_dict()}
        )
        cells.append(cell)
    for row, pair in enumerate(pairs):
        words = model.words(torch.from_numpy(pair.ids).long())
        query, passage = words[pair.parts == 1], words[pair.parts == 2]
        o_q = pool(lstm(cells, query))
        h = lstm(cells, passage if len(passage) else torch.zeros(1, 8, dtype=torch.double))
        m = torch.tanh(h @ model.state.weight.T + o_q @ model.query.weight.T)
        s = torch.softmax(m @ model.score.weight[0], 0)
        o_a = pool(h * s.unsqueeze(1))
        expected = (o_q @ o_a) / (o_q.norm() * o_a.norm())
        torch.testing.assert_close(cosines[row], expected, rtol=1e-9, atol=1e-11)
