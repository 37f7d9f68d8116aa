"""Training on stored features beside fine-tuning: what is measured, and that it was learned from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import small_encoder  # noqa: E402
from telerank.errors import ModelError  # noqa: E402
from telerank.inspect.efficiency import (  # noqa: E402
    FIRST,
    LATER,
    TUNED,
    Contest,
    Efficiency,
    Rounds,
    _Learner,
    efficiency_table,
)
from telerank.models.rerankers.reranker import Shape, fresh_reranker  # noqa: E402
from telerank.show.tables import markdown  # noqa: E402

PAIRS = [(f"q{n}", f"d{n} d{n % 7}. d5 d{n} d7.") for n in range(24)]
LABELS = [float(n % 2) for n in range(24)]
PLAN = Rounds(number=2, size=3, batches=2, tuned=1, epochs=2)


@pytest.fixture
def contest(tmp_path):
    start = small_encoder(tmp_path / "encoder")
    lengths = {"max_query": 8, "max_length": 30}
    made = [fresh_reranker(start, Shape("bert", frozen=frozen, **lengths)) for frozen in (False, True)]
    return Contest(*made, tmp_path / "features")


def test_both_learn_and_the_frozen_encoder_does_not(contest):
    before = [
        {name: one.clone() for name, one in reranker.model.named_parameters()}
        for reranker in (contest.tuned, contest.frozen)
    ]
    told = []
    found = contest.measure(PAIRS, LABELS, PLAN, progress=lambda *one: told.append(one))
    for was, reranker in zip(before, (contest.tuned, contest.frozen), strict=True):
        now = dict(reranker.model.named_parameters())
        changed = {name.split(".")[0] for name in was if not torch.equal(was[name], now[name])}
        assert changed == ({"encoder", "head"} if reranker is contest.tuned else {"head"})
    assert told[-1] == ("measuring", 3, 3)
    for way in (TUNED, FIRST, LATER):
        assert found.seconds[way].shape == (2, 2)
        assert found.pace(way, by_the_clock=True) > 0
    np.testing.assert_allclose(sum(found.parts.values()), found.seconds[LATER])


def test_fine_tuning_is_that_of_a_training(contest):
    """Fused Adam without decay of biases, attention as plain products; a frozen encoder keeps its kernels."""
    contest.measure(PAIRS, LABELS, PLAN)
    tuned, frozen = (one.model.encoder.config for one in (contest.tuned, contest.frozen))
    assert (tuned._attn_implementation, frozen._attn_implementation) == ("eager", "sdpa")
    updates = _Learner.of(contest.tuned.model).optimiser
    assert updates.defaults["fused"]
    assert {one.ndim for one in updates.param_groups[1]["params"]} == {1}
    assert updates.param_groups[1]["weight_decay"] == 0


def test_a_head_computes_in_float32_whatever_its_encoder_does(contest):
    made = {"encoder": set(), "head": set()}

    def watch(name):
        return lambda *given: made[name].add(given[-1].dtype)

    layers = [one for one in contest.frozen.model.modules() if isinstance(one, torch.nn.Linear)]
    own = set(contest.frozen.model.head.modules())
    for layer in layers:
        layer.register_forward_hook(watch("head" if layer in own else "encoder"))
    low = partial(torch.autocast, "cpu", torch.bfloat16)
    replace(contest, precision=low).measure(PAIRS, LABELS, PLAN)
    assert made == {"encoder": {torch.bfloat16}, "head": {torch.float32}}


def test_a_pace_is_the_median_of_the_rounds():
    seconds = {
        TUNED: np.array([[2.0, 4], [2, 4], [2, 8]]),
        FIRST: np.array([[1.0, 2], [0.5, 2], [9, 9]]),
        LATER: np.array([[0.1, 0.1], [0.1, 0.1], [0.1, 0.1]]),
    }
    found = Efficiency(seconds, {"reading": np.array([[0.02, 0.03]])})
    assert (found.pace(FIRST), found.ratio(FIRST), found.ratio(LATER)) == (1.0, 2.0, 20.0)
    assert (found.pace(TUNED, by_the_clock=True), found.ratio(LATER, by_the_clock=True)) == (0.25, 40.0)
    shown = markdown(efficiency_table(found))
    assert "| frozen, later epochs | 10.00 | **20.00** | 5.67 | 3.36 |" in shown
    assert "reading 20.0 ms" in shown
    assert "batches/s: by the processor time of all threads together" in shown
    assert "batches/s: by the clock." in markdown(efficiency_table(found, by_the_clock=True))


def test_what_cannot_be_measured_is_refused(contest):
    with pytest.raises(ModelError, match="2 rounds and one before need 18 pairs, got 17"):
        contest.measure(PAIRS[:17], LABELS, PLAN)
    with pytest.raises(ModelError, match="or one comes twice"):
        contest.measure([PAIRS[0]] * 18, LABELS, PLAN)
    with pytest.raises(ModelError, match="of 2 batches 3 cannot be fine-tuned on"):
        Rounds(batches=2, tuned=3)
    with pytest.raises(ModelError, match="epochs must be at least 1, got 0"):
        Rounds(epochs=0)
