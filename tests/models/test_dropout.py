"""Dropout with random bits of our own: its mean, its share, its gradient, what is left to torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from telerank.models.dropout import QuickDropout, drop  # noqa: E402

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
