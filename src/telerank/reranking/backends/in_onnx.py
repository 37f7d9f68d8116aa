"""The back end ``onnx``: the transformer in onnxruntime, in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from telerank.reranking.backends import (
    INPUTS,
    Compute,
    PairModel,
    RunGraph,
    Samples,
    TraceableTransformer,
    cache_graph,
    check_graph,
    compute_with_graph,
    example_inputs,
    tracing,
)

_OPSET = 17
_FILE = "model.onnx"


def compute(model: PairModel, _precision: str, count: int | None, _samples: Samples) -> Compute:
    """Compute with a graph, which holds the model's weights, too: they are in memory twice."""
    what = {"backend": "onnx", "opset": _OPSET}
    folder = cache_graph(model, what, ("onnx",), lambda into: _export(model, into))
    return compute_with_graph(model, _open(folder, count), count)


def _export(model: PairModel, folder: Path) -> None:
    axes = {name: {0: "pairs", 1: "tokens"} for name in INPUTS}
    with tracing():
        torch.onnx.export(
            TraceableTransformer(model.network),
            example_inputs(model.texts.pad_id),
            folder / _FILE,
            input_names=list(INPUTS),
            output_names=["outputs"],
            dynamic_axes={
                **axes,
                "outputs": {0: "pairs"} if model.network.pooled else axes[INPUTS[0]],
            },
            opset_version=_OPSET,
            dynamo=False,  # the newer exporter needs one more package
        )
    check_graph(model, _open(folder, None))


def _open(folder: Path, count: int | None) -> RunGraph:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count or 0
    session: Any = onnxruntime.InferenceSession(folder / _FILE, options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]  # without those that nothing depends on
    return lambda inputs: session.run(None, {name: inputs[name] for name in names})[0]
