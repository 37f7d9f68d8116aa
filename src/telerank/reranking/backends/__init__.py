"""The back ends that compute a batch, by name, and the one in torch.

============  ============================================  ===========================================
``torch``     ``float32``, ``float32-fast``, ``tf32``,      the model itself, on a GPU if there is one
              ``bfloat16``
``compiled``  ``float32``, ``tf32``, ``bfloat16``           the same, its transformer by ``torch.compile``
``openvino``  ``float32``, ``bfloat16``, ``int8``            the transformer as OpenVINO's graph
``onnx``      ``float32``                                    the transformer as onnxruntime's graph
============  ============================================  ===========================================

``auto`` is bfloat16 on a GPU that computes in it, and float32 elsewhere. A graph replaces only the
transformer, from tokens to outputs; the rest of a model stays in torch. It is kept in the user's cache, by a
hash of everything that decides it: weights, vocabulary, precision, versions. Models over word vectors have no
transformer.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from telerank.computing import Computing
from telerank.drafts import cached_folder
from telerank.errors import MissingExtra, ModelError
from telerank.models.inference import prepare_inference
from telerank.models.loading import quiet
from telerank.models.pairs.pair import PairBatch
from telerank.models.precision import AUTO, device_of, precision, resolve_precision
from telerank.models.readers import Reader
from telerank.models.rerankers.reranker import Reranker
from telerank.models.rerankers.transformer_ranker import TwoStepModel

PairModel: TypeAlias = Reranker | Reader
"""What back ends compute: a model, and what makes its pairs."""
Compute: TypeAlias = Callable[[PairBatch], Tensor]
"""Pairs -> logits in float32, (B,) or of each token, on the device that computes them; a GPU may still be at
it."""
Samples: TypeAlias = Callable[[], Sequence[PairBatch]]
"""Batches similar to those that will be scored, for a precision that must be calibrated."""


@dataclass(frozen=True)
class BackEnd:
    """``packages`` must be installed; with them the module ``in_NAME`` has ``compute``.

    Its arguments are a :class:`PairModel`, the precision, the number of threads, and samples.
    """

    precisions: tuple[str, ...]
    packages: tuple[str, ...] = ()
    on_gpus: bool = False


BACKENDS: Mapping[str, BackEnd] = {
    "torch": BackEnd(("float32", "float32-fast", "tf32", "bfloat16"), on_gpus=True),
    "compiled": BackEnd(("float32", "tf32", "bfloat16"), on_gpus=True),
    "openvino": BackEnd(("float32", "bfloat16", "int8"), ("openvino",)),
    "onnx": BackEnd(("float32",), ("onnx", "onnxruntime")),
}


def check_computing(computing: Computing) -> None:
    """Raise ModelError if there is no such back end, or it does not compute so."""
    if computing.backend not in BACKENDS:
        raise ModelError(f"no back end is called {computing.backend!r}; there are: {', '.join(BACKENDS)}")
    backend = BACKENDS[computing.backend]
    if computing.precision not in (AUTO, *backend.precisions):
        raise ModelError(
            f"{computing.backend} computes in {', '.join(backend.precisions)}, got {computing.precision!r}"
        )
    if computing.threads is not None and computing.threads < 1:
        raise ModelError(f"threads must be at least 1, got {computing.threads}")
    if computing.tokens is not None and computing.tokens < 1:
        raise ModelError(f"tokens of a batch must be at least 1, got {computing.tokens}")
    if not backend.on_gpus and computing.device not in (None, "cpu"):
        raise ModelError(f"{computing.backend} computes on the processor, not on {computing.device}")


def device_for(computing: Computing) -> torch.device:
    """The device that a model is computed on; raises ModelError if it is not there."""
    return device_of(computing.device or "auto" if BACKENDS[computing.backend].on_gpus else "cpu")


def compute(model: PairModel, computing: Computing, samples: Samples) -> Compute:
    """The function that computes batches of this model.

    Raises MissingExtra if a package of the back end is not installed; ModelError if the model has no
    transformer for the back end, or this machine does not compute in that precision.
    """
    name, count = computing.backend, computing.threads
    for package in BACKENDS[name].packages:
        if find_spec(package) is None:
            raise MissingExtra(package, "fast")
    if reason := model.refuses(name):
        raise ModelError(f"a {model.label} {reason}: its back end is torch")
    device = device_for(computing)
    precision_name = resolve_precision(computing.precision, device)
    if name in ("torch", "compiled"):
        return _compute_in_torch(model.network, device, precision_name, count, compiled=name == "compiled")
    module = import_module(f"{__name__}.in_{name}")
    function: Compute = module.compute(model, precision_name, count, samples)
    return function


def _compute_in_torch(
    model: Any, device: torch.device, name: str, count: int | None, *, compiled: bool
) -> Compute:
    """Compute on the GPU if there is one; a copy of the model goes there, and its weights may be rounded."""
    rounded = device.type == "cuda" and name == "bfloat16"
    with threads(count):
        context = precision("float32" if rounded else name, device)
    if device.type == "cuda" or compiled:
        # all weights of a model over words score, and stay exact
        last = model.last_layers if isinstance(model, TwoStepModel) else model
        dtype = torch.bfloat16 if rounded else torch.float32
        model = prepare_inference(model, device, dtype, () if last is None else last.parameters())
    else:
        model = model.to(device).eval()
    if compiled:  # for batches of any shape at once
        model.transformer = torch.compile(model.transformer, dynamic=True)

    def compute_batch(batch: PairBatch) -> Tensor:
        with threads(count), torch.inference_mode(), context():
            logits: Tensor = model(batch.to(device))
        return logits.float()

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


RunGraph: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""The outputs of a graph, from its inputs by name; both are arrays of numpy."""

FORMAT = 3  # of a graph's folder
_ERROR = 1e-3  # of outputs, relative to the largest; float32's is below 1e-5
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class TraceableTransformer(nn.Module):
    """The transformer of a model as a module for a tracer, in evaluation mode, on the processor."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: TwoStepModel = model.cpu()
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.model.transformer(input_ids, attention_mask, token_type_ids)


def compute_with_graph(model: PairModel, run: RunGraph, count: int | None) -> Compute:
    """Compute the transformer with a graph, and what follows it with the model in ``count`` threads."""
    network: Any = model.network

    def compute_batch(batch: PairBatch) -> Tensor:
        outputs = torch.from_numpy(run({name: getattr(batch, name).numpy() for name in INPUTS}))
        with threads(count), torch.inference_mode():
            logits: Tensor = network.finish(outputs, batch)
        return logits

    return compute_batch


def example_inputs(pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two pairs, one padded: without padding a tracer may leave the mask out."""
    ids = torch.full((2, 8), 4, dtype=torch.int64)
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = pad_id, 0
    return ids, mask, torch.zeros_like(ids)


@contextmanager
def tracing() -> Iterator[None]:
    """Without gradients, and without the warnings of tracers: :func:`check_graph` compares the results."""
    with torch.no_grad(), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_graph(model: PairModel, run: RunGraph) -> None:
    """Compare a graph in float32 with its model on pairs of two lengths that were not traced.

    Raises ModelError if the outputs differ: the tracer followed a path that depends on its example.
    """
    ids = torch.randint(5, 30, (3, 21), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    ids[1, 13:], mask[1, 13:] = model.texts.pad_id, 0
    inputs = dict(zip(INPUTS, (ids, mask, torch.zeros_like(ids)), strict=True))
    with tracing():
        expected = TraceableTransformer(model.network)(*inputs.values())
        outputs = torch.from_numpy(run({name: tensor.numpy() for name, tensor in inputs.items()}))
    if expected.dim() == 3:  # outputs of padding are not used
        expected, outputs = expected * mask.unsqueeze(-1), outputs * mask.unsqueeze(-1)
    error = float((expected - outputs).abs().max() / expected.abs().max().clamp(min=1))
    if not error < _ERROR:
        raise ModelError(
            f"the graph of this {model.label} gives other outputs than the model (by {error:.1g})"
        )


def cache_graph(
    model: PairModel, what: dict[str, Any], packages: tuple[str, ...], make: Callable[[Path], None]
) -> Path:
    """The folder of a graph of a model, ``what`` and ``packages``; ``make`` fills it if there is none."""
    versions = {name: version(name) for name in ("torch", "transformers", *packages)}
    identity = [FORMAT, model.fingerprint, what, versions]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    return cached_folder("graphs", key, make)
