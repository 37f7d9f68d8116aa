"""The back end ``onnx``: the transformer in onnxruntime, in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from telerank.models.pairs.pair import PairBatch
from telerank.models.rerankers.reranker import Reranker
from telerank.reranking.backends import BackEndSettings, Compute, Samples
from telerank.reranking.backends.graphs import INPUTS, cache_graph, check, example, traceable, tracing
from telerank.reranking.backends.in_torch import threads

_OPSET = 17
_FILE = "model.onnx"


def compute(reranker: Reranker, setting: BackEndSettings, _samples: Samples) -> Compute:
    """Compute with a graph, which holds the model's weights, too: they are in memory twice."""
    what = {"backend": "onnx", "opset": _OPSET}
    folder = cache_graph(reranker, what, ("onnx",), lambda into: _export(reranker, into))
    session, model = _session(folder, setting.threads), reranker.transformer

    def compute_batch(batch: PairBatch) -> Tensor:
        inputs = {name: getattr(batch, name).numpy() for name in INPUTS}
        outputs = torch.from_numpy(session.run(None, _inputs(session, inputs))[0])
        with threads(setting.threads), torch.inference_mode():
            return model.finish(outputs, batch)

    return compute_batch


def _export(reranker: Reranker, folder: Path) -> None:
    axes = {name: {0: "pairs", 1: "tokens"} for name in INPUTS}
    with tracing():
        torch.onnx.export(
            traceable(reranker),
            example(reranker.texts.pad_id),
            folder / _FILE,
            input_names=list(INPUTS),
            output_names=["outputs"],
            dynamic_axes={
                **axes,
                "outputs": {0: "pairs"} if reranker.transformer.pooled else axes[INPUTS[0]],
            },
            opset_version=_OPSET,
            dynamo=False,  # the newer exporter needs one more package
        )
    session = _session(folder, None)
    check(reranker, lambda inputs: session.run(None, _inputs(session, inputs))[0])


def _session(folder: Path, count: int | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count or 0
    return onnxruntime.InferenceSession(folder / _FILE, options, providers=["CPUExecutionProvider"])


def _inputs(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of the graph, which lacks those that nothing depends on."""
    return {node.name: inputs[node.name] for node in session.get_inputs()}
