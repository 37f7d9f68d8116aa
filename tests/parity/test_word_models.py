"""Models over word vectors against their formulas, pair by pair, in loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from random_pairs import random_word_pairs  # noqa: E402
from telerank.models.long.tkl import Tkl  # noqa: E402
from telerank.models.pairs.pair import batch_of  # noqa: E402
from telerank.models.pairs.words import PADDING, UNKNOWN  # noqa: E402
from telerank.models.rerankers.co_pacrr import CoPacrr  # noqa: E402
from telerank.models.rerankers.conv_knrm import ConvKnrm  # noqa: E402
from telerank.models.rerankers.drmm import Drmm  # noqa: E402
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


def rows_of(pair, part):
    """The rows of the words of one side, as many as there are."""
    return [int(row) for row, own in zip(pair.ids, pair.parts, strict=True) if own == part]


def array(parameter):
    return parameter.detach().numpy()


def grams(model, length, rows):
    """The n-grams of a length as vectors, None for one without a known word."""
    table, layer = array(model.words.weight), model.convolutions[length - 1]
    weight, bias = array(layer.weight), array(layer.bias)  # (F, E, length)
    result = []
    for start in range(len(rows)):
        vector = bias.copy()
        for place, row in enumerate(rows[start : start + length]):
            vector += weight[:, :, place] @ table[row]
        known = any(row != UNKNOWN for row in rows[start : start + length])
        result.append(np.maximum(vector, 0) if known else None)
    return result


def near(one, other):
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms else 0.0


def test_conv_knrm_is_its_formula():
    torch.manual_seed(3)
    pairs, vectors = random_word_pairs(seed=4)
    model = ConvKnrm(vectors, 6, 3).double()
    scores = model(batch_of(pairs, PADDING))
    means, deviations = [1.0] + [0.9 - 0.2 * number for number in range(10)], [1e-3] + [0.1] * 10
    weights = array(model.weight.weight)[0].reshape(3, 3, 11)
    for pair, score in zip(pairs, scores.tolist(), strict=True):
        total = model.weight.bias.item()
        for g in (1, 2, 3):
            for h in (1, 2, 3):
                query, passage = (grams(model, n, rows_of(pair, part)) for n, part in ((g, 1), (h, 2)))
                for kernel, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
                    for one in query:
                        if one is None:
                            continue
                        held = sum(
                            math.exp(-((near(one, other) - mean) ** 2) / (2 * deviation**2))
                            for other in passage
                            if other is not None
                        )
                        total += weights[g - 1, h - 1, kernel] * 0.01 * math.log(max(1e-10, held))
        assert score == pytest.approx(math.tanh(total), rel=1e-6)


def test_drmm_is_its_formula():
    torch.manual_seed(3)
    pairs, vectors = random_word_pairs(seed=4)
    model = Drmm(vectors, 4, bins=7).double()
    scores = model(batch_of(pairs, PADDING)).tolist()
    table, gate = array(model.words.weight), array(model.gate.weight)[0]
    (first, _, second, _), lowest = model.layers, [-1 + part / 3 for part in range(6)]
    for pair, score in zip(pairs, scores, strict=True):
        query, passage = ([row for row in rows_of(pair, part) if row != UNKNOWN] for part in (1, 2))
        weights = [math.exp(gate @ table[row]) for row in query]
        total = 0.0
        for row, weight in zip(query, weights, strict=True):
            counts = np.zeros(7)
            for other in passage:
                cosine = near(table[row], table[other])
                counts[6 if row == other else max(i for i in range(6) if cosine >= lowest[i])] += 1
            inner = np.tanh(array(first.weight) @ np.log(1 + counts) + array(first.bias))
            total += weight / sum(weights) * math.tanh(array(second.weight)[0] @ inner + second.bias.item())
        assert score == pytest.approx(total, rel=1e-6, abs=1e-12)


def convolved(similar, layer):
    """The greatest of the filters at each place, with as many zeros around as keep the size."""
    weight, bias = array(layer.weight)[:, 0], array(layer.bias)
    size = weight.shape[1]
    before = (size - 1) // 2
    result = np.zeros_like(similar)
    for i in range(similar.shape[0]):
        for j in range(similar.shape[1]):
            sums = bias.copy()
            for a in range(size):
                for b in range(size):
                    y, x = i + a - before, j + b - before
                    if 0 <= y < similar.shape[0] and 0 <= x < similar.shape[1]:
                        sums += weight[:, a, b] * similar[y, x]
            result[i, j] = max(0.0, sums.max())
    return result


def co_pacrr_score(model, pair, rows, strongest, window):
    query, passage = rows_of(pair, 1), rows_of(pair, 2)
    table = array(model.words.weight)
    q, d = (
        [np.zeros(table.shape[1]) if row == UNKNOWN else table[row] for row in side]
        for side in (query, passage)
    )
    similar = np.zeros((rows, len(d) + 9))  # zeros behind the passage, as of a longer one beside it
    for i, one in enumerate(q):
        for j, other in enumerate(d):
            similar[i, j] = near(one, other)
    context = (
        [
            near(np.sum(q, axis=0) / max(len(q), 1), np.mean(d[max(0, j - window) : j + window + 1], axis=0))
            for j in range(len(d))
        ]
        if q
        else [0.0] * len(d)
    )
    maps = [similar, *(convolved(similar, layer) for layer in model.convolutions)]
    raw = [model.importance.weight[row, 0].item() for row in query]
    signals = []
    for i in range(rows):
        if i >= len(q):
            signals += [0.0] * (1 + len(maps) * 4 * 2 * strongest)
            continue
        signals.append(math.exp(raw[i]) / sum(map(math.exp, raw)))
        for each in maps:
            for quarters in (1, 2, 3, 4):
                places = range(math.ceil(len(d) * quarters / 4))
                best = sorted(places, key=lambda j: -each[i, j])[:strongest]
                missing = [0.0] * (strongest - len(best))
                signals += [each[i, j] for j in best] + missing + [context[j] for j in best] + missing
    hidden = np.array(signals)
    for layer in model.layers:
        hidden = (
            np.maximum(hidden, 0)
            if isinstance(layer, torch.nn.ReLU)
            else (array(layer.weight) @ hidden + array(layer.bias))
        )
    return float(hidden[0])


def test_co_pacrr_is_its_formula():
    torch.manual_seed(5)
    pairs, vectors = random_word_pairs(seed=4)
    rows = max(len(rows_of(pair, 1)) for pair in pairs) + 1
    model = CoPacrr(vectors, 7, rows=rows, filters=5, strongest=2).double().eval()
    torch.nn.init.normal_(model.importance.weight)
    scores = model(batch_of(pairs, PADDING))
    for pair, score in zip(pairs, scores.tolist(), strict=True):
        assert score == pytest.approx(co_pacrr_score(model, pair, rows, 2, 4), rel=1e-6, abs=1e-9)


def test_co_pacrr_shuffles_query_words_only_while_it_is_trained_and_takes_no_more_than_its_rows():
    torch.manual_seed(5)
    pairs, vectors = random_word_pairs(seed=4)
    batch = batch_of(pairs, PADDING)
    rows = max(len(rows_of(pair, 1)) for pair in pairs)
    model = CoPacrr(vectors, rows=rows)
    assert len({tuple(model.train()(batch).tolist()) for _ in range(5)}) > 1
    assert len({tuple(model.eval()(batch).tolist()) for _ in range(5)}) == 1
    with pytest.raises(ValueError, match=f"a co-pacrr of {rows - 1} query words was given {rows}"):
        CoPacrr(vectors, rows=rows - 1)(batch)


def attended(layer, items):
    """A layer of torch's transformer encoder, (words, E), by its formulas: two heads, no padding."""
    attention, width = layer.self_attn, items.shape[1]
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    q, k, v = (
        items @ weight[n * width : (n + 1) * width].T + bias[n * width : (n + 1) * width] for n in range(3)
    )
    half, outputs = width // 2, []
    for head in (slice(0, half), slice(half, width)):
        weights = torch.softmax(q[:, head] @ k[:, head].T / half**0.5, -1)
        outputs.append(weights @ v[:, head])
    items = layer.norm1(items + attention.out_proj(torch.cat(outputs, 1)))
    return layer.norm2(items + layer.linear2(torch.relu(layer.linear1(items))))


def in_context(model, rows, chunk=4, overlap=1):
    """The words of a text in context, chunk by chunk; None for one that is unknown."""
    table, positions, mix = model.words.weight, model.context.positions, model.context.mix
    result = []
    for begin in range(0, len(rows), chunk):
        places = [
            place
            for place in range(begin - overlap, begin + chunk + overlap)
            if 0 <= place < len(rows) and rows[place] != UNKNOWN
        ]
        if not places:
            result += [None] * min(chunk, len(rows) - begin)
            continue
        own = torch.stack([table[rows[place]] for place in places])
        items = own + torch.stack([positions[place - begin + overlap] for place in places])
        for layer in model.context.layers:
            items = attended(layer, items)
        mixed = dict(zip(places, mix * own + (1 - mix) * items, strict=True))
        result += [mixed.get(place) for place in range(begin, min(begin + chunk, len(rows)))]
    return result


def tkl_windows(model, query, passage):
    """The score of each window of a passage, None for one without a known word."""
    means, deviations = [1.0] + [0.9 - 0.2 * number for number in range(10)], [1e-3] + [0.1] * 10
    one, other, weights = in_context(model, query), in_context(model, passage), model.weight.weight[0]
    saturation, scores = model.saturation, []
    for begin in range(0, len(passage), 2):
        words = [word for word in other[begin : begin + 30] if word is not None]
        score = torch.zeros((), dtype=torch.double)
        for asked in one:
            if asked is None or not words:
                continue
            features = torch.stack([saturation.salience.weight[0] @ asked, torch.tensor(float(len(words)))])
            a, b, c = saturation.numbers(saturation.norm(features.double()))
            cosines = [asked @ word / (asked.norm() * word.norm()) for word in words]
            for mean, deviation, weight in zip(means, deviations, weights, strict=True):
                held = sum(torch.exp(-((value - mean) ** 2) / (2 * deviation**2)) for value in cosines)
                score = score + weight * (a * held.clamp(min=1e-10) ** (1 / b) - c)
        scores.append(score if words else None)
    return scores


def test_tkl_is_its_formula():
    torch.manual_seed(5)
    pairs, vectors = random_word_pairs(seed=6)
    long = [np.random.default_rng(n).integers(1, 22, size) for n, size in enumerate((3, 90, 31, 155))]
    pairs += [
        type(pair)(
            np.concatenate([pair.ids[pair.parts == 1], rows]).astype(np.int32),
            np.zeros(count := int((pair.parts == 1).sum()) + len(rows), np.int32),
            np.array([1] * (count - len(rows)) + [2] * len(rows), np.int32),
            np.array([-1] * (count - len(rows)) + [0] * len(rows), np.int32),
        )
        for pair, rows in zip(pairs, long, strict=False)
    ]
    model = Tkl(vectors, heads=2, inner=6, chunk=4, overlap=1, regions=2).double()
    with torch.no_grad():
        model.shares.copy_(torch.tensor([[1.0, 0.5, 0.4, 0.3, 0.2], [0.7, 0.2, 0.1, 0.3, 0.6]]))
        model.weight.weight.normal_()
        scores = model(batch_of(pairs, PADDING)).tolist()
        regions = 0
        for pair, score in zip(pairs, scores, strict=True):
            windows = tkl_windows(model, rows_of(pair, 1), rows_of(pair, 2))
            left, total = {n: float(own) for n, own in enumerate(windows) if own is not None}, 0.0
            kept = dict(left)
            for places in model.shares.tolist():
                if not left:
                    break
                best = max(left, key=lambda number: (left[number], -number))
                regions += 1
                for place, offset in zip(places, (0, -1, 1, -2, 2), strict=True):
                    total += place * kept.get(max(0, best + offset), 0.0)
                left = {number: own for number, own in left.items() if abs(number - best) >= 15}
            assert score == pytest.approx(total, rel=1e-6, abs=1e-9)
    assert regions > len(pairs)
