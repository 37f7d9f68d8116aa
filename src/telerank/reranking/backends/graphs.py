"""Graphs of transformers: the module to trace, and the folder of graphs.

A graph is kept in the user's cache, by a hash of everything that decides it: weights, vocabulary, precision,
versions.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from telerank.drafts import cached_folder
from telerank.errors import ModelError
from telerank.models.loading import quiet
from telerank.models.pairs.pair import PairBatch
from telerank.reranking.backends import Computable, Compute, threads

RunGraph: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""The outputs of a graph, from its inputs by name; both are arrays of numpy."""

FORMAT = 3  # of a graph's folder
_ERROR = 1e-3  # of outputs, relative to the largest; float32's is below 1e-5
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class TraceableTransformer(nn.Module):
    """The transformer of a model as a module for a tracer, in evaluation mode, on the processor."""

    def __init__(self, computable: Computable) -> None:
        super().__init__()
        self.model = computable.two_step.cpu()
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.model.transformer(input_ids, attention_mask, token_type_ids)


def compute_with(computable: Computable, run: RunGraph, count: int | None) -> Compute:
    """Compute the transformer with a graph, and what follows it with the model in ``count`` threads."""
    model = computable.two_step

    def compute_batch(batch: PairBatch) -> Tensor:
        outputs = torch.from_numpy(run({name: getattr(batch, name).numpy() for name in INPUTS}))
        with threads(count), torch.inference_mode():
            return model.finish(outputs, batch)

    return compute_batch


def example(pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two pairs, one padded: without padding a tracer may leave the mask out."""
    ids = torch.full((2, 8), 4, dtype=torch.int64)
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = pad_id, 0
    return ids, mask, torch.zeros_like(ids)


@contextmanager
def tracing() -> Iterator[None]:
    """Without gradients, and without the warnings of tracers: :func:`check` compares the results."""
    with torch.no_grad(), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(computable: Computable, run: RunGraph) -> None:
    """Compare a graph in float32 with its model on pairs of two lengths that were not traced.

    Raises ModelError if the outputs differ: the tracer followed a path that depends on its example.
    """
    ids = torch.randint(5, 30, (3, 21), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    ids[1, 13:], mask[1, 13:] = computable.pad_id, 0
    inputs = dict(zip(INPUTS, (ids, mask, torch.zeros_like(ids)), strict=True))
    with tracing():
        expected = TraceableTransformer(computable)(*inputs.values())
        outputs = torch.from_numpy(run({name: tensor.numpy() for name, tensor in inputs.items()}))
    if expected.dim() == 3:  # outputs of padding are not used
        expected, outputs = expected * mask.unsqueeze(-1), outputs * mask.unsqueeze(-1)
    error = float((expected - outputs).abs().max() / expected.abs().max().clamp(min=1))
    if not error < _ERROR:
        raise ModelError(
            f"the graph of this {computable.kind} gives other outputs than the model (by {error:.1g})"
        )


def cache_graph(
    computable: Computable, what: dict[str, Any], packages: tuple[str, ...], make: Callable[[Path], None]
) -> Path:
    """The folder of a graph of a model, ``what`` and ``packages``; ``make`` fills it if there is none."""
    versions = {name: version(name) for name in ("torch", "transformers", *packages)}
    identity = [FORMAT, computable.fingerprint(), what, versions]
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    return cached_folder("graphs", key, make)
