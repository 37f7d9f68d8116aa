"""Deleting sentences: rates beside the same counted pair by pair, sentence by sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gated_models import QIDS, gates_alone, pairs_of, tiny_dmn  # noqa: E402

from small_models import small_encoder  # noqa: E402
from telerank.errors import CollectionError, ModelError  # noqa: E402
from telerank.inspect.gates import (  # noqa: E402
    LONGEST,
    MEAN,
    Faithfulness,
    FaithfulnessReport,
    Rates,
    count_sentences,
    delete_sentence,
    measure_faithfulness,
)
from telerank.models.pairs.pair import PASSAGE, batch_of  # noqa: E402
from telerank.models.rerankers.kinds import Shape  # noqa: E402
from telerank.models.rerankers.reranker import fresh_reranker  # noqa: E402


def score(reranker, pair):
    with torch.no_grad():
        return reranker.model(batch_of([pair], 0)).item()


def counted_slowly(reranker, pairs, seed):
    """Lowered or not, by what chooses: each pair alone, each deletion spelled out in tokens."""
    random = np.random.default_rng(seed)
    found = {}
    for pair in pairs:
        count = len({*pair.sentences.tolist()} - {-1})
        if count < 2:
            continue
        gates = gates_alone(reranker, pair)
        order = random.permutation(count).tolist()
        lengths = [pair.sentences.tolist().count(n) for n in range(count)]
        ways = {f"episode {n + 1}": row for n, row in enumerate(gates)}
        ways[MEAN] = [sum(column) / len(gates) for column in zip(*gates, strict=True)]
        ways[LONGEST] = lengths
        for what, values in ways.items():
            best = max(range(count), key=lambda n, values=values: values[n])
            other = next(n for n in order if n != best)
            falls = [score(reranker, pair) - score(reranker, spelled(pair, n)) for n in (best, other)]
            found.setdefault(what, []).append(falls)
    return {what: np.array(falls) for what, falls in found.items()}


def spelled(pair, sentence):
    """A pair without the tokens of a sentence, made by hand."""
    from telerank.models.pairs.pair import Pair

    kept = [i for i, number in enumerate(pair.sentences) if number != sentence]
    numbers = [n - (n > sentence) for n in pair.sentences[kept].tolist()]
    return Pair(pair.ids[kept], pair.types[kept], pair.parts[kept], np.array(numbers, np.int32))


@pytest.mark.parametrize("kind", ["bert-dmn", "dmn"])
def test_rates_are_those_counted_pair_by_pair(tmp_path, kind):
    reranker = tiny_dmn(tmp_path, kind)
    pairs = pairs_of(reranker)
    slow = counted_slowly(reranker, pairs, seed=3)
    found = measure_faithfulness(reranker, pairs, QIDS, seed=3, batch_tokens=100)
    assert list(found.rates) == list(slow) == ["episode 1", "episode 2", "episode 3", MEAN, LONGEST]
    for what, one in found.rates.items():
        lowered = (slow[what] > 1e-5).mean(0)
        assert (one.chosen, one.other) == pytest.approx(tuple(lowered), abs=1e-9)
        assert (one.chosen_drop, one.other_drop) == pytest.approx(tuple(slow[what].mean(0)), abs=1e-5)
        assert one.low <= one.difference <= one.high
    assert (found.pairs, found.skipped, found.queries) == (12, 4, 4)


def test_what_was_cut_off_does_not_come_back(tmp_path):
    reranker = tiny_dmn(tmp_path, max_length=16)
    pair = max(pairs_of(reranker), key=lambda one: one.cut)
    shorter = delete_sentence(reranker.texts, pair, 0)
    assert (shorter.parts == PASSAGE).sum() == (pair.parts == PASSAGE).sum() - (pair.sentences == 0).sum()


def test_the_interval_is_that_of_queries_drawn_with_all_their_pairs(tmp_path):
    reranker = tiny_dmn(tmp_path)
    pairs = pairs_of(reranker)
    found = measure_faithfulness(reranker, pairs, QIDS, seed=3)
    falls = counted_slowly(reranker, pairs, seed=3)["episode 1"] > 1e-5
    values = falls[:, 0].astype(float) - falls[:, 1]
    names = [qid for qid, pair in zip(QIDS, pairs, strict=True) if count_sentences(pair) > 1]
    random, means = np.random.default_rng(0), []
    for _ in range(4000):
        drawn = random.choice(4, 4)
        mine = [value for n in drawn for value, name in zip(values, names, strict=True) if name == f"q{n}"]
        means.append(sum(mine) / len(mine))
    one = found.rates["episode 1"]
    assert (one.low, one.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=0.05)
    alone = measure_faithfulness(reranker, pairs, ["q"] * len(pairs), seed=3).rates["episode 1"]
    assert math.isnan(alone.low)
    assert alone.difference == one.difference
    halves = ["p" if number % 2 else "q" for number in range(len(pairs))]
    assert measure_faithfulness(reranker, pairs, halves, seed=3).rates["episode 1"].low <= one.difference


def test_a_difference_is_strong_if_its_interval_is_without_zero():
    bounds = ((-0.1, 0.2), (0.1, 0.2), (-0.2, -0.1))
    rates = {str(n): Rates(0.6, 0.5, low, high, 0.0, 0.0) for n, (low, high) in enumerate(bounds)}
    report = FaithfulnessReport("m", Faithfulness(rates, 2, 2, 0, 0), {"collection": "c"})
    assert [row[3].strong for row in report.tables()[0].rows] == [False, True, True]


def test_what_cannot_be_checked_is_refused(tmp_path):
    reranker = tiny_dmn(tmp_path / "dmn")
    single = pairs_of(reranker, [("q1", "d1 d2."), ("q2", "d3.")])
    with pytest.raises(CollectionError, match="of 2 passages none has two sentences"):
        measure_faithfulness(reranker, single, ["q1", "q2"])
    plain = fresh_reranker(small_encoder(tmp_path / "plain"), Shape("bert", max_query=8, max_length=32))
    with pytest.raises(ModelError, match="no gates"):
        measure_faithfulness(plain, pairs_of(plain), QIDS)
