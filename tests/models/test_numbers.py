"""What computing rests on: dropout, precisions, random numbers, memory."""

from __future__ import annotations

import ctypes
import platform
import random
import resource
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from telerank.errors import ModelError
from telerank.models.encoders.folders import fresh_bi_encoder
from telerank.models.encoders.grad_cache import backward
from telerank.models.on_processor import FreeMemory, QuickDropout, drop, keeping_freed_memory
from telerank.models.precision import (
    NAMES,
    fast_error,
    multiplies_exactly,
    precision,
    resolve_precision,
)
from telerank.models.random_numbers import RandomNumbers, seeded
from telerank.models.readers import ReaderSettings, fresh_reader
from telerank.models.rerankers.kinds import Shape
from telerank.models.rerankers.reranker import fresh_reranker
from telerank.training.loop import seed_of

SHAPE = (37, 41, 129)  # not a multiple of four


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_dropped_is_p_and_the_others_keep_the_mean(dtype, p):
    torch.manual_seed(1)
    dropped = drop(torch.ones(SHAPE, dtype=dtype), p)
    assert dropped.dtype == dtype
    count = dropped.numel()
    assert float((dropped == 0).float().mean()) == pytest.approx(p, abs=4 * (p * (1 - p) / count) ** 0.5)
    (kept,) = set(dropped[dropped != 0].tolist())
    assert kept == pytest.approx(1 / (1 - p), rel=1e-4 if dtype == torch.float32 else 1e-2)


def test_elements_are_dropped_independently():
    torch.manual_seed(2)
    zero = (drop(torch.ones(400_000), 0.3) == 0).double()
    for step in (1, 2, 3, 4, 5, 16, 64):  # four elements share a word of bits
        both = float((zero[step:] * zero[:-step]).mean())
        assert both == pytest.approx(0.09, abs=0.002)
    assert float((drop(torch.ones(400_000), 0.3) == 0).double().mul(zero).mean()) == pytest.approx(
        0.09, abs=0.002
    )


def test_the_gradient_is_that_of_what_was_kept():
    values = torch.randn(SHAPE, requires_grad=True)
    dropped = drop(values, 0.25)
    dropped.sum().backward()
    assert torch.equal(values.grad == 0, dropped == 0)
    assert torch.allclose(values.grad * values, dropped)


def test_torchs_state_of_random_numbers_decides():
    state = torch.get_rng_state()
    first = drop(torch.ones(SHAPE))
    second = drop(torch.ones(SHAPE))
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(drop(torch.ones(SHAPE)), first)
    assert torch.equal(drop(torch.ones(SHAPE)), second)


def test_few_elements_other_types_and_evaluation_are_left_to_torch():
    few, wide = torch.ones(100), torch.ones(10_000, dtype=torch.float64)
    for values, options in (
        (few, {}),
        (wide, {}),
        (torch.ones(SHAPE), {"p": 0.0}),
        (torch.ones(SHAPE), {"p": 1.0}),
    ):
        torch.manual_seed(3)
        ours = drop(values, **options)
        torch.manual_seed(3)
        assert torch.equal(ours, functional.dropout(values, **options))
    values = torch.ones(SHAPE)
    assert drop(values, 0.5, training=False) is values


def test_layers_in_the_context_drop_so():
    layer, values = torch.nn.Dropout(0.4), torch.ones(SHAPE)
    torch.manual_seed(4)
    with QuickDropout():
        inside = layer(values)
    torch.manual_seed(4)
    assert torch.equal(inside, drop(values, 0.4))
    torch.manual_seed(4)
    assert not torch.equal(inside, layer(values))


CPU, GPU = torch.device("cpu"), torch.device("cuda:1")
has_fast = hasattr(torch.backends.mkldnn, "matmul") and torch.backends.mkldnn.is_available()
needs_fast = pytest.mark.skipif(not has_fast, reason="this torch has no such kernels")


class Multiplying(TorchFunctionMode):
    """A processor whose layers have factors of a type."""

    def __init__(self, digits):
        super().__init__()
        self.digits = digits

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is torch.nn.functional.linear:
            arguments = [each.to(self.digits) for each in arguments]
            return function(*arguments).float()
        return function(*arguments, **(options or {}))


@pytest.fixture
def measured():
    """Errors are measured anew, and for other tests again."""
    fast_error.cache_clear()
    yield
    fast_error.cache_clear()


def product():
    return torch.ones(2, 2) @ torch.ones(2, 2)


def test_each_name_is_what_it_says():
    assert NAMES == ("float32", "float32-fast", "tf32", "bfloat16")
    for name in ("float32", "bfloat16"):
        with precision(name, CPU)():
            assert product().dtype is getattr(torch, name)
    for name, device, message in (
        ("half", CPU, "must be float32, float32-fast, tf32 or bfloat16, got 'half'"),
        ("tf32", CPU, "tf32 is for GPUs, not for cpu"),
        ("float32-fast", torch.device("meta"), "float32-fast is for processors, not for meta"),
    ):
        with pytest.raises(ModelError, match=message):
            precision(name, device)


@needs_fast
def test_the_fast_kernels_are_on_inside_alone_and_told_by_the_digits_of_products(measured):
    """torch's one name for all devices cannot be read then."""
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    with Multiplying(torch.float64):
        fast = precision("float32-fast", CPU)
    assert matmul.fp32_precision == before
    with fast():
        assert matmul.fp32_precision == "bf16"
        assert not multiplies_exactly(CPU)
        with fast():
            assert product().dtype is torch.float32
        assert matmul.fp32_precision == "bf16"
    assert matmul.fp32_precision == before
    assert multiplies_exactly(CPU)
    with pytest.raises(RuntimeError), fast():
        raise RuntimeError
    assert matmul.fp32_precision == before


@needs_fast
def test_fast_is_given_where_its_error_is_that_of_float32_and_refused_elsewhere(measured):
    """Both kinds of processors stand under this test, now one, now the other."""
    rounds = r"rounds to bfloat16 \(error of a product 0.00\d\); choose"
    if fast_error(torch.get_num_threads()) > 1e-5:
        with pytest.raises(ModelError, match=rounds):
            precision("float32-fast", CPU)
    else:
        torch.manual_seed(1)
        left, right = torch.randn(70, 500), torch.randn(300, 500)
        with precision("float32-fast", CPU)():
            fast = torch.nn.functional.linear(left, right)
        exact = left.double() @ right.double().T
        assert float((fast - exact).abs().max() / exact.abs().max()) < 5e-6
    fast_error.cache_clear()
    with Multiplying(torch.bfloat16), pytest.raises(ModelError, match=rounds):
        precision("float32-fast", CPU)


def test_auto_is_bfloat16_on_a_gpu_that_has_it_and_float32_elsewhere(monkeypatch):
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has=has, **_: has)
        assert resolve_precision("auto", GPU) == ("bfloat16" if has else "float32")
        assert resolve_precision("auto", CPU) == "float32"
        assert resolve_precision("tf32", GPU) == "tf32"


def test_tf32_is_on_inside_alone_and_told_by_the_digits_of_products():
    matmul = torch.backends.cuda.matmul
    assert multiplies_exactly(GPU)
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    before = getattr(matmul, name)
    with precision("tf32", GPU)():
        assert not multiplies_exactly(GPU)
    assert getattr(matmul, name) == before
    assert multiplies_exactly(GPU)


@pytest.fixture
def two_gpus(monkeypatch, encoders):
    """A machine with two GPUs, which fails where anything asks for their random numbers but by device."""
    devices = []
    encoders()  # made before, for making it saves the numbers of all devices

    def fail(*_, **__):
        pytest.fail("a GPU was asked for its random numbers")

    def state_of(device):
        devices.append(str(device))
        return torch.zeros(16, dtype=torch.uint8)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("get_rng_state_all", "set_rng_state_all", "manual_seed_all", "manual_seed", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, name, fail)
    monkeypatch.setattr(torch.cuda, "get_rng_state", state_of)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda _, device: devices.append(f"set {device}"))
    return devices


def test_fresh_weights_are_drawn_without_a_gpu(encoders, two_gpus):
    folder, before = encoders(), torch.get_rng_state()
    drawn = [fresh_reranker(folder, Shape(max_query=8, max_length=24), seed=5).model for _ in range(2)]
    drawn += [fresh_bi_encoder(folder, 5)[0] for _ in range(2)]
    settings = ReaderSettings(max_length=24, stride=4, max_question=8)
    drawn += [fresh_reader(folder, settings, seed=5).model for _ in range(2)]
    assert two_gpus == []
    assert torch.equal(torch.get_rng_state(), before)
    for first, second in (drawn[:2], drawn[2:4], drawn[4:]):
        assert all(map(torch.equal, first.parameters(), second.parameters()))


def test_only_the_gpu_in_use_is_asked_and_none_by_gradients_on_a_processor(two_gpus):
    weight = torch.nn.Parameter(torch.ones(2, 3))
    backward([lambda: weight * 1], [lambda: weight * 2], lambda q, d: (q @ d.T).sum(), CPU)
    assert two_gpus == []
    assert weight.grad is not None
    numbers = RandomNumbers(torch.device("cuda", 1))
    assert numbers.tensors().keys() == {"cpu", "gpu"}
    numbers.restore()
    assert two_gpus == ["cuda:1", "set cuda:1"]
    assert RandomNumbers(CPU).tensors().keys() == {"cpu"}


def test_seeded_draws_what_manual_seed_draws_and_no_process_what_another_draws():
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(9)
    with seeded(4):
        assert torch.equal(torch.rand(3), expected)
    after = torch.rand(3)
    torch.manual_seed(9)
    assert torch.equal(torch.rand(3), after)
    seeds = {seed_of(seed, rank) for seed in (*range(50), 2**63 - 1) for rank in range(1, 9)}
    assert len(seeds) == 51 * 8
    assert seeds.isdisjoint(range(60))
    torch.manual_seed(max(seeds))


STATUS = Path("/proc/self/status")


def held():
    """MiB of memory that this process has written to."""
    return int(STATUS.read_text().split("RssAnon:")[1].split()[0]) / 1024


@pytest.mark.skipif(
    not STATUS.exists() or platform.libc_ver()[0] != "glibc",
    reason="this system does not say what a process holds, or gives memory back by itself",
)
def test_pieces_between_tensors_that_are_kept_go_back_every_few_seconds():
    """Of tensors of ever other sizes; small ones stay between them."""
    draw, kept, now = random.Random(0), [], [0.0]
    free = FreeMemory(5, clock=lambda: now[0])
    now[0] = 5.0
    free.give_back()  # what earlier tests left
    for early, late in (((6.0, 9.9), 10.0), ((11.0, 14.9), 15.0), ((), 30.0)):
        before = held()
        for _ in range(8):
            large = [torch.ones(draw.randrange(1 << 16, 1 << 18)) for _ in range(100)]
            kept += [torch.ones(256) for _ in large]
            del large
        for now[0] in early:
            assert not free.give_back()
        assert held() - before > 30
        now[0] = late
        assert free.give_back()
        assert held() - before < 10


def new_pages(numbers: int) -> int:
    """How many pages the system hands out for a tensor that is made and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(numbers)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory by themselves")
def test_a_training_keeps_the_memory_of_large_tensors_and_gives_it_back_all_the_same():
    """Tensors beyond glibc's largest threshold, 32 MiB, which by default are new pages each time."""
    size, page = 1 << 24, resource.getpagesize()
    pages, now = 4 * size // page, [0.0]
    few = pages // 512  # if the system makes large pages
    ctypes.CDLL(None).malloc_trim(0)  # what other tests freed is none of these
    assert sum(new_pages(size) for _ in range(2)) > few
    with keeping_freed_memory():
        new_pages(2 * size)
        assert sum(new_pages(size - 1000 * n) for n in range(4)) < pages
        free, before = FreeMemory(5, clock=lambda: now[0]), held()
        now[0] = 6.0
        assert free.give_back()
        assert before - held() > 40
    larger_than_any_free_piece = 8 * size
    new_pages(larger_than_any_free_piece)
    assert sum(new_pages(larger_than_any_free_piece) for _ in range(2)) > 8 * few
