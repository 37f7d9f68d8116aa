"""The device that computes a model, the precision of its matrix products, by name, and their kernels.

``float32``
    torch's default kernels.
``float32-fast``
    A processor's faster float32 kernels, which oneDNN offers under the name of bfloat16. On many processors
    their error is float32's. Processors with matrix units for bfloat16 do round, so the error of a product
    is measured first.
``bfloat16``
    An encoder's matrix products in bfloat16, weights and sums in float32 (autocast). The layers that score
    the encoder's outputs stay in float32 (:func:`in_float32`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from telerank.errors import ModelError

NAMES = ("float32", "float32-fast", "bfloat16")
_Method = TypeVar("_Method", bound=Callable[..., Any])
Precision: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Opens the context in which a model computes."""

_ERROR = 1e-5  # relative; float32's is below 1e-6, bfloat16's above 1e-3


def device_of(name: str) -> torch.device:
    """The device called ``cpu``, ``cuda`` or ``cuda:1``; ``auto`` is the GPU if there is one.

    Raises
    ------
    ModelError
        If there is no such device on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r}: {str(error).splitlines()[0]}") from error
    return device


def precision(name: str, device: torch.device) -> Precision:
    """The context in which a model computes with that precision on that device.

    Raises
    ------
    ModelError
        If the name is unknown, or ``float32-fast`` is not float32 on this machine.
    """
    if name not in NAMES:
        raise ModelError(f"precision must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, got {name!r}")
    if name == "bfloat16":
        return lambda: torch.autocast(device.type, dtype=torch.bfloat16)
    if name == "float32-fast":
        _check_fast(device)
        return _fast
    return nullcontext


def in_float32(method: _Method) -> _Method:
    """Make a method compute in float32, within ``bfloat16``, too.

    Many pairs share a score of bfloat16's eight bits: the candidates of a query would tie.
    """

    @wraps(method)
    def compute(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return method(self, *args, **kwargs)

    return cast("_Method", compute)


def train_plainly(module: nn.Module) -> None:
    """Let encoders with trainable weights compute attention as plain matrix products.

    On a processor torch's fused attention has a slow gradient, and with dropout none at all: a training of
    MiniLM in bfloat16 makes about a sixth more updates a second on plain products. Scores differ by rounding.
    """
    for part in module.modules():
        if not isinstance(part, PreTrainedModel):
            continue
        fused = part.config._attn_implementation == "sdpa"  # noqa: SLF001 — it has no public name
        if fused and any(weight.requires_grad for weight in part.parameters()):
            part.set_attn_implementation("eager")


@cache
def fast_error(threads: int) -> float:  # noqa: ARG001 — the kernels depend on it
    """The largest error of the fast kernels, relative to the largest element of a product."""
    random = torch.Generator().manual_seed(0)
    worst = 0.0
    for rows, inner, columns in ((64, 64, 64), (33, 384, 1536), (256, 768, 768)):
        left = torch.randn(rows, inner, generator=random)
        right = torch.randn(columns, inner, generator=random)
        exact = left.double() @ right.double().T
        with _fast(), torch.no_grad():
            product = torch.nn.functional.linear(left, right)
        worst = max(worst, float((product - exact).abs().max() / exact.abs().max()))
    return worst


def _check_fast(device: torch.device) -> None:
    if device.type != "cpu":
        raise ModelError(f"float32-fast is for processors, not for {device.type}")
    mkldnn: Any = torch.backends.mkldnn
    if not hasattr(mkldnn, "matmul"):
        raise ModelError(f"float32-fast needs torch 2.9 or later, got {torch.__version__}")
    if not mkldnn.is_available():
        raise ModelError("float32-fast needs a torch that was built with oneDNN (mkldnn)")
    error = fast_error(torch.get_num_threads())
    if error > _ERROR:
        reason = f"this processor rounds to bfloat16 (error of a product {error:.1g})"
        raise ModelError(f"float32-fast: {reason}; choose float32 or bfloat16")


@contextmanager
def _fast() -> Iterator[None]:
    """For the whole process: torch has no such setting for a thread."""
    setting: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = setting.fp32_precision
    setting.fp32_precision = "bf16"
    try:
        yield
    finally:
        setting.fp32_precision = before
