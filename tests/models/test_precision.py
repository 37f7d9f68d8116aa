"""Precisions have names, and none is given for another."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

from telerank.errors import ModelError  # noqa: E402
from telerank.models.precision import (  # noqa: E402
    NAMES,
    fast_error,
    multiplies_exactly,
    precision,
    resolve_precision,
)

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
def test_a_processor_that_rounds_is_refused_by_its_error(measured):
    with (
        Multiplying(torch.bfloat16),
        pytest.raises(ModelError, match=r"rounds to bfloat16 \(error of a prod"),
    ):
        precision("float32-fast", CPU)
    assert 1e-3 < fast_error(torch.get_num_threads()) < 0.1


@needs_fast
def test_fast_is_given_where_its_error_is_that_of_float32_and_refused_elsewhere(measured):
    """Both kinds of processors stand under this test, now one, now the other."""
    if fast_error(torch.get_num_threads()) > 1e-5:
        with pytest.raises(ModelError, match="rounds to bfloat16"):
            precision("float32-fast", CPU)
        return
    torch.manual_seed(1)
    left, right = torch.randn(70, 500), torch.randn(300, 500)
    with precision("float32-fast", CPU)():
        fast = torch.nn.functional.linear(left, right)
    exact = left.double() @ right.double().T
    assert float((fast - exact).abs().max() / exact.abs().max()) < 5e-6


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
