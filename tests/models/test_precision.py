"""Precisions have names, and none is given for another."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from telerank.errors import ModelError  # noqa: E402
from telerank.models import precision as module  # noqa: E402
from telerank.models.precision import (  # noqa: E402
    NAMES,
    fast_error,
    multiplies_exactly,
    precision,
    resolve_precision,
)

CPU = torch.device("cpu")
has_fast = hasattr(torch.backends.mkldnn, "matmul") and torch.backends.mkldnn.is_available()
needs_fast = pytest.mark.skipif(not has_fast, reason="this torch has no such kernels")


def product():
    return torch.ones(2, 2) @ torch.ones(2, 2)


def test_each_name_is_what_it_says():
    assert NAMES == ("float32", "float32-fast", "tf32", "bfloat16")
    with precision("float32", CPU)():
        assert product().dtype is torch.float32
    with precision("bfloat16", CPU)():
        assert product().dtype is torch.bfloat16
    with pytest.raises(ModelError, match="must be float32, float32-fast, tf32 or bfloat16, got 'half'"):
        precision("half", CPU)


@needs_fast
def test_the_fast_kernels_are_on_inside_alone(monkeypatch):
    monkeypatch.setattr(module, "fast_error", lambda _: 1e-6)
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    made = precision("float32-fast", CPU)
    assert matmul.fp32_precision == before
    with made():
        assert matmul.fp32_precision == "bf16"
        with made():
            assert product().dtype is torch.float32
        assert matmul.fp32_precision == "bf16"
    assert matmul.fp32_precision == before
    with pytest.raises(RuntimeError), made():
        raise RuntimeError
    assert matmul.fp32_precision == before


@needs_fast
def test_fast_is_given_where_its_error_is_that_of_float32_and_refused_elsewhere():
    """Both kinds of processors stand under this test, now one, now the other."""
    error = fast_error(1)
    assert 0 < error < 0.1
    if error > 1e-5:
        with pytest.raises(ModelError, match="rounds to bfloat16"):
            precision("float32-fast", CPU)
        return
    torch.manual_seed(1)
    left, right = torch.randn(70, 500), torch.randn(300, 500)
    with precision("float32-fast", CPU)():
        found = torch.nn.functional.linear(left, right)
    exact = left.double() @ right.double().T
    assert float((found - exact).abs().max() / exact.abs().max()) < 5e-6


@needs_fast
def test_a_processor_that_rounds_is_refused_by_its_error(monkeypatch):
    monkeypatch.setattr(module, "fast_error", lambda _: 3e-3)
    with pytest.raises(ModelError, match=r"rounds to bfloat16 \(error of a product 0.003\); choose"):
        precision("float32-fast", CPU)


@needs_fast
def test_the_error_of_rounding_would_be_seen(monkeypatch):
    """In place of the fast kernels such that round as bfloat16 does."""
    monkeypatch.setattr(module, "_fast", lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    assert module.fast_error.__wrapped__(1) > 1e-3


def test_fast_is_of_processors():
    with pytest.raises(ModelError, match="float32-fast is for processors, not for meta"):
        precision("float32-fast", torch.device("meta"))


def test_auto_is_bfloat16_on_a_gpu_that_has_it_and_float32_elsewhere(monkeypatch):
    gpu = torch.device("cuda:1")
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has=has, **_: has)
        assert resolve_precision("auto", gpu) == ("bfloat16" if has else "float32")
        assert resolve_precision("auto", CPU) == "float32"
        assert resolve_precision("tf32", gpu) == "tf32"


def test_tf32_is_on_inside_alone_and_told_by_the_digits_of_products():
    gpu, matmul = torch.device("cuda"), torch.backends.cuda.matmul
    assert multiplies_exactly(gpu)
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    before = getattr(matmul, name)
    with precision("tf32", gpu)():
        assert not multiplies_exactly(gpu)
    assert getattr(matmul, name) == before
    assert multiplies_exactly(gpu)
    with pytest.raises(ModelError, match="tf32 is for GPUs, not for cpu"):
        precision("tf32", CPU)


@needs_fast
def test_fast_kernels_are_told_by_the_digits_of_products():
    """torch's one name for all devices cannot be read then."""
    with module._fast():
        assert not multiplies_exactly(CPU)
    assert multiplies_exactly(CPU)
