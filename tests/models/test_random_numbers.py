"""Random states are those of the processor and of the device in use; no other GPU is asked, none started."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from telerank.models.encoders.folders import fresh_bi_encoder  # noqa: E402
from telerank.models.encoders.grad_cache import backward  # noqa: E402
from telerank.models.random_numbers import RandomNumbers, seeded  # noqa: E402
from telerank.models.readers.reader import ReaderSettings, fresh_reader  # noqa: E402
from telerank.models.rerankers.reranker import Shape, fresh_reranker  # noqa: E402
from telerank.training.loop import seed_of  # noqa: E402


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with two GPUs, which fails where anything asks for their random numbers but by device."""
    asked = []

    def fail(*_, **__):
        pytest.fail("a GPU was asked for its random numbers")

    def state_of(device):
        asked.append(str(device))
        return torch.zeros(16, dtype=torch.uint8)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("get_rng_state_all", "set_rng_state_all", "manual_seed_all", "manual_seed", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, fail)
    monkeypatch.setattr(torch.cuda, "get_rng_state", state_of)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda _, device: asked.append(f"set {device}"))
    return asked


def test_fresh_weights_are_drawn_without_a_gpu(encoders, two_gpus):
    folder, before = encoders(), torch.get_rng_state()
    drawn = [fresh_reranker(folder, Shape(max_query=8, max_length=24), seed=5).model for _ in range(2)]
    drawn += [fresh_bi_encoder(folder, 5)[0] for _ in range(2)]
    settings = ReaderSettings(max_length=24, stride=4, max_question=8)
    drawn += [fresh_reader(folder, settings, seed=5).model for _ in range(2)]
    assert two_gpus == []
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in (drawn[:2], drawn[2:4], drawn[4:]):
        assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_cached_gradients_on_a_processor_ask_no_gpu(two_gpus):
    weight = torch.nn.Parameter(torch.ones(2, 3))
    backward([lambda: weight * 1], [lambda: weight * 2], lambda q, d: (q @ d.T).sum(), torch.device("cpu"))
    assert two_gpus == []
    assert weight.grad is not None


def test_only_the_gpu_in_use_is_asked(two_gpus):
    numbers = RandomNumbers(torch.device("cuda", 1))
    assert numbers.tensors().keys() == {"cpu", "gpu"}
    numbers.restore()
    assert two_gpus == ["cuda:1", "set cuda:1"]
    assert RandomNumbers(torch.device("cpu")).tensors().keys() == {"cpu"}


def test_seeded_draws_what_manual_seed_draws():
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(9)
    with seeded(4):
        assert torch.equal(torch.rand(3), expected)
    after = torch.rand(3)
    torch.manual_seed(9)
    assert torch.equal(torch.rand(3), after)


def test_no_process_draws_what_one_of_another_seed_draws():
    seeds = {seed_of(seed, rank) for seed in (*range(50), 2**63 - 1) for rank in range(1, 9)}
    assert len(seeds) == 51 * 8
    assert seeds.isdisjoint(range(60))
    torch.manual_seed(max(seeds))
