"""The device that computes a model, the precision of its matrix products, by name, and their kernels.

``float32``
    torch's default kernels.
``float32-fast``
    A processor's faster float32 kernels, which oneDNN offers under the name of bfloat16. On many processors
    their error is float32's. Processors with matrix units for bfloat16 do round, so the error of a product
    is measured first.
``tf32``
    A GPU's float32 products of factors with 10 bits after the point.
``bfloat16``
    An encoder's matrix products in bfloat16, weights and sums in float32 (autocast). The layers that score
    the encoder's outputs stay in float32 (:func:`in_float32`).
``auto``
    ``bfloat16`` on a GPU that computes in it, else ``float32`` (:func:`resolve_precision`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial, wraps
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import PreTrainedModel

from telerank.errors import ModelError

AUTO = "auto"
NAMES = ("float32", "float32-fast", "tf32", "bfloat16")
_Method = TypeVar("_Method", bound=Callable[..., Any])
Precision: TypeAlias = Callable[[], AbstractContextManager[Any]]
"""Opens the context in which a model computes."""

_ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
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
    except RuntimeError as error:
        raise ModelError(f"there is no device {name!r}: expected cpu, cuda, cuda:1, …") from error
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r}: {str(error).splitlines()[0]}") from error
    return device


def resolve_precision(name: str, device: torch.device) -> str:
    """The name itself; for ``auto`` the precision that suits the device."""
    if name != AUTO:
        return name
    return "bfloat16" if device.type == "cuda" and computes_in_bfloat16(device) else "float32"


def computes_in_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for products in bfloat16, without which they take long."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 — it has no public name
    return device.type != "cpu" or supported


def precision(name: str, device: torch.device) -> Precision:
    """The context in which a model computes with that precision on that device.

    Raises
    ------
    ModelError
        If the name is unknown, ``float32-fast`` is not float32 on this machine, or ``tf32`` is not for a GPU.
    """
    if name not in NAMES:
        raise ModelError(f"precision must be {', '.join(NAMES[:-1])} or {NAMES[-1]}, got {name!r}")
    if name == "float32-fast":
        if device.type != "cpu":
            raise ModelError(f"float32-fast is for processors, not for {device.type}")
        mkldnn: Any = torch.backends.mkldnn
        if not hasattr(mkldnn, "matmul"):
            raise ModelError(f"float32-fast needs torch 2.9 or later, got {torch.__version__}")
        if not mkldnn.is_available():
            raise ModelError("float32-fast needs a torch that was built with oneDNN (mkldnn)")
        error = fast_error(torch.get_num_threads())
        if error > _ERROR:
            raise ModelError(
                f"float32-fast: this processor rounds to bfloat16 (error of a product {error:.1g}); "
                "choose float32 or bfloat16"
            )
        return _fast
    if name == "tf32" and device.type != "cuda":
        raise ModelError(f"tf32 is for GPUs, not for {device.type}")
    if device.type == "cuda":
        return partial(_on_gpu, name)
    return nullcontext if name == "float32" else partial(torch.autocast, device.type, torch.bfloat16)


@contextmanager
def _on_gpu(name: str) -> Iterator[None]:
    """Attention is not cuDNN's, which makes a plan for every new shape of a batch: in tenths of a second."""
    products = _tf32() if name == "tf32" else nullcontext()
    in_bfloat16 = torch.autocast("cuda", torch.bfloat16, enabled=name == "bfloat16")
    with sdpa_kernel(_ATTENTION), in_bfloat16, products:
        yield


def multiplies_exactly(device: torch.device) -> bool:
    """Whether the factors of a float32 product keep all their digits there now, with any setting of torch."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # before torch 2.9
        return device.type in ("cpu", "cuda") and torch.get_float32_matmul_precision() == "highest"
    backends: Any = torch.backends
    library = {"cpu": backends.mkldnn, "cuda": backends.cuda}.get(device.type)
    return library is not None and library.matmul.fp32_precision in ("none", "ieee")


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


def _fast() -> AbstractContextManager[None]:
    return _set(torch.backends.mkldnn.matmul, "fp32_precision", "bf16")  # type: ignore[attr-defined]


def _tf32() -> AbstractContextManager[None]:
    setting: Any = torch.backends.cuda.matmul
    # both names of the setting are read by torch, but it refuses to read one after the other was set
    if hasattr(setting, "fp32_precision"):
        return _set(setting, "fp32_precision", "tf32")
    return _set(setting, "allow_tf32", True)


@contextmanager
def _set(settings: Any, name: str, value: object) -> Iterator[None]:
    """A setting of the whole process within the block: torch has none for a thread."""
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)
