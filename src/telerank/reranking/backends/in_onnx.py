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
from telerank.reranking.backends.graphs import (
    INPUTS,
    cache_graph,
    check,
    example,
    traceable,
    tracing,
)
from telerank.reranking.backends.in_torch import threads

_OPSET = 17
_FILE = "model.onnx"


def compute(reranker: Reranker, setting: BackEndSettings, _samples: Samples) -> Compute:
    """The model's weights are in the graph, too: twice in memory."""
    what = {"backend": "onnx", "opset": _OPSET}
    folder = cache_graph(reranker, what, ("onnx",), lambda into: _export(reranker, into))
    session, model = _session(folder, setting.threads), reranker.transformer

    def computed(batch: PairBatch) -> Tensor:
        given = {name: getattr(batch, name).numpy() for name in INPUTS}
        outputs = torch.from_numpy(session.run(None, _taken(session, given))[0])
        with threads(setting.threads), torch.inference_mode():
            return model.finish(outputs, batch)

    return computed


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
    check(reranker, lambda given: session.run(None, _taken(session, given))[0])


def _session(folder: Path, count: int | None) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count or 0
    return onnxruntime.InferenceSession(folder / _FILE, options, providers=["CPUExecutionProvider"])


def _taken(session: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """An input that nothing depends on is not the graph's."""
    return {one.name: given[one.name] for one in session.get_inputs()}
