"""The back ends that compute a batch, by name, and the one in torch.

============  ============================================  ===========================================
``torch``     ``float32``, ``float32-fast``, ``bfloat16``    the model itself, on a GPU if there is one
``openvino``  ``float32``, ``bfloat16``, ``int8``            the transformer as OpenVINO's graph
``onnx``      ``float32``                                    the transformer as onnxruntime's graph
============  ============================================  ===========================================

A graph replaces only the transformer, from tokens to outputs; the rest of a model stays in torch. Models over
word vectors have no transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TypeAlias

import torch
from torch import Tensor

from telerank.errors import MissingExtra, ModelError
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import device_of, precision
from telerank.models.rerankers.reranker import Reranker

Compute: TypeAlias = Callable[[PairBatch], Tensor]
"""Pairs -> logits, (B,) float32, on the processor."""
Samples: TypeAlias = Callable[[], Sequence[PairBatch]]
"""Batches similar to those that will be scored, for a precision that must be calibrated."""


@dataclass(frozen=True)
class BackEndSettings:
    """How a model is computed; if ``threads`` or ``device`` is None the back end chooses."""

    backend: str
    precision: str
    threads: int | None
    device: str | None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ModelError(f"no back end is called {self.backend!r}; there are: {', '.join(BACKENDS)}")
        known = BACKENDS[self.backend].precisions
        if self.precision not in known:
            raise ModelError(f"{self.backend} computes in {', '.join(known)}, got {self.precision!r}")
        if self.threads is not None and self.threads < 1:
            raise ModelError(f"threads must be at least 1, got {self.threads}")
        if self.backend != "torch" and self.device not in (None, "cpu"):
            raise ModelError(f"{self.backend} computes on the processor, not on {self.device}")


@dataclass(frozen=True)
class BackEnd:
    """``packages`` must be installed; with them a module has ``compute(reranker, setting, samples)``."""

    precisions: tuple[str, ...]
    packages: tuple[str, ...] = ()


BACKENDS: Mapping[str, BackEnd] = {
    "torch": BackEnd(("float32", "float32-fast", "bfloat16")),
    "openvino": BackEnd(("float32", "bfloat16", "int8"), ("openvino",)),
    "onnx": BackEnd(("float32",), ("onnx", "onnxruntime")),
}


def compute(reranker: Reranker, setting: BackEndSettings, samples: Samples) -> Compute:
    """The function that computes batches of this re-ranker.

    Raises MissingExtra if a package of the back end is not installed; ModelError if the model has no
    transformer for the back end, or this machine does not compute in that precision.
    """
    backend = BACKENDS[setting.backend]
    for package in backend.packages:
        if find_spec(package) is None:
            raise MissingExtra(package, "fast")
    if setting.backend == "torch":
        return _compute_in_torch(reranker, setting)
    if reranker.kind.over_words:
        raise ModelError(f"a {reranker.shape.kind} has no transformer: its back end is torch")
    function: Compute = import_module(f"{__name__}.in_{setting.backend}").compute(reranker, setting, samples)
    return function


def _compute_in_torch(reranker: Reranker, setting: BackEndSettings) -> Compute:
    """Compute on the GPU if there is one; the model is moved there."""
    device = device_of(setting.device or "auto")
    with threads(setting.threads):
        context = precision(setting.precision, device)
    model = reranker.model.to(device).eval()

    def compute_batch(batch: PairBatch) -> Tensor:
        with threads(setting.threads), torch.inference_mode(), context():
            logits: Tensor = model(batch.to(device))
        return logits.float().cpu()

    return compute_batch


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads, which is a setting of the whole process."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
