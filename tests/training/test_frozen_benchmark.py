"""benchmarks/frozen_training.py measures trainings: the models learn, as they would in ``telerank train``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from small_models import small_encoder
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker
from telerank.show.tables import render_markdown

PAIRS = [(f"q{n}", f"d{n} d{n % 7}. d5 d{n} d7.") for n in range(24)]
LABELS = [float(n % 2) for n in range(24)]


@pytest.fixture
def rounds(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return pytest.importorskip("training_rounds")


def test_both_learn_and_the_frozen_encoder_does_not(rounds, tmp_path):
    start = small_encoder(tmp_path / "encoder")
    tuned, frozen = (
        fresh_reranker(start, Shape("bert", frozen=frozen, max_query=8, max_length=30))
        for frozen in (False, True)
    )
    before = [
        {name: weight.clone() for name, weight in reranker.model.named_parameters()}
        for reranker in (tuned, frozen)
    ]
    plan = rounds.Rounds(number=2, size=3, batches=2, tuned=1, epochs=2)
    timings = rounds.measure_rounds(tuned, frozen, tmp_path / "features", PAIRS, LABELS, plan=plan)
    for was, reranker in zip(before, (tuned, frozen), strict=True):
        now = dict(reranker.model.named_parameters())
        changed = {name.split(".")[0] for name in was if not torch.equal(was[name], now[name])}
        assert changed == ({"encoder", "head"} if reranker is tuned else {"head"})
    assert all(timings.seconds[name].shape == (2, 2) for name in (rounds.TUNED, rounds.FIRST, rounds.LATER))
    np.testing.assert_allclose(sum(timings.parts.values()), timings.seconds[rounds.LATER])


def test_a_pace_is_the_median_of_the_rounds(rounds):
    seconds = {
        rounds.TUNED: np.array([[2.0, 4], [2, 4], [2, 8]]),
        rounds.FIRST: np.array([[1.0, 2], [0.5, 2], [9, 9]]),
        rounds.LATER: np.array([[0.1, 0.1], [0.1, 0.1], [0.1, 0.1]]),
    }
    timings = rounds.Timings(seconds, {"reading": np.array([[0.02, 0.03]])})
    assert (timings.pace(rounds.FIRST), timings.ratio(rounds.FIRST)) == (1.0, 2.0)
    assert timings.ratio(rounds.LATER, elapsed=True) == 40.0
    shown = render_markdown(rounds.timings_table(timings))
    assert "| frozen, later epochs | 10.00 | **20.00** | 5.67 | 3.36 |" in shown
    assert "reading 20.0 ms" in shown
