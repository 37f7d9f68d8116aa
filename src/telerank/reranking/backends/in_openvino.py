"""The back end ``openvino``: the transformer as OpenVINO's graph, in float32, bfloat16 or int8.

For int8, NNCF quantises weights and their factors by ranges that it measures on sample pairs (static
quantisation). The rest is computed in bfloat16, if the processor has that.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import openvino
from openvino._offline_transformations import apply_moc_transformations
from openvino.frontend import FrontEndManager
from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

from telerank.errors import MissingExtra, ModelError
from telerank.models.pairs.pair import PairBatch
from telerank.reranking.backends import BackEndSettings, Computable, Compute, Samples, graphs
from telerank.reranking.backends.first_token import narrow_to_first_token

_FILE = "model.xml"
_PACKAGES = ("openvino",)
_NO_REPORTS = "NNCF_CI"  # read when NNCF is imported


def compute(computable: Computable, setting: BackEndSettings, samples: Samples) -> Compute:
    """Compute with a graph, whose weights are mapped from the disk.

    Raises ModelError if the processor has no bfloat16, the graph gives other outputs than the model, or int8
    has no samples for calibration; MissingExtra if int8 is chosen and NNCF is not installed.
    """
    core = openvino.Core()
    has_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if setting.precision == "bfloat16" and not has_bfloat16:
        raise ModelError("openvino: this processor does not compute in bfloat16: choose float32")
    what = {"backend": "openvino", "precision": "float32"}
    folder = graphs.cache_graph(computable, what, _PACKAGES, lambda into: _export(core, computable, into))
    if setting.precision == "int8":
        folder = _quantised_graph(core, computable, folder, samples)
    hint = "bf16" if setting.precision != "float32" and has_bfloat16 else "f32"
    run = _compile(core, core.read_model(folder / _FILE), hint, setting.threads)
    return graphs.compute_with(computable, run, setting.threads)


def _compile(core: Any, graph: Any, hint: str, count: int | None) -> graphs.RunGraph:
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": 1}
    if count is not None:
        options["INFERENCE_NUM_THREADS"] = count
    request = core.compile_model(graph, "CPU", options).create_infer_request()
    names = [node.any_name for node in graph.inputs]
    return lambda inputs: request.infer([inputs[name] for name in names], share_inputs=True)[0]


def _export(core: Any, computable: Computable, folder: Path) -> None:
    graph = _graph(computable)
    narrow_to_first_token(graph)
    graphs.check(computable, _compile(core, graph, "f32", None))
    openvino.save_model(graph, folder / _FILE, compress_to_fp16=False)


def _graph(computable: Computable) -> Any:
    """The same as ``openvino.convert_model``, which reports each call to its authors."""
    frontend = FrontEndManager().load_by_framework("pytorch")
    with graphs.tracing():
        inputs = graphs.example(computable.pad_id)
        decoder = TorchScriptPythonDecoder(graphs.TraceableTransformer(computable), example_input=inputs)
        graph = frontend.convert(frontend.load(decoder))
        apply_moc_transformations(graph, cf=False, smart_reshape=True)
    return graph


def _quantised_graph(core: Any, computable: Computable, exact: Path, samples: Samples) -> Path:
    if find_spec("nncf") is None:
        raise MissingExtra("nncf", "fast")
    batches = samples()
    if not batches:
        raise ModelError(
            "openvino: int8 must be calibrated: give sample pairs, similar to those to be scored"
        )
    digest = hashlib.sha256()
    for batch in batches:
        digest.update(batch.input_ids.numpy().tobytes())
    what = {"backend": "openvino", "precision": "int8", "calibrated on": digest.hexdigest()}
    return graphs.cache_graph(
        computable, what, (*_PACKAGES, "nncf"), lambda into: _quantise(core, exact, batches, into)
    )


def _quantise(core: Any, exact: Path, batches: Sequence[PairBatch], folder: Path) -> None:
    graph = core.read_model(exact / _FILE)
    names = [node.any_name for node in graph.inputs]
    with _silence():
        import nncf

        quantised = nncf.quantize(
            graph,
            nncf.Dataset(batches, lambda batch: [getattr(batch, name).numpy() for name in names]),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(batches),
        )
    openvino.save_model(quantised, folder / _FILE, compress_to_fp16=False)


@contextmanager
def _silence() -> Iterator[None]:
    """NNCF without its output, its warnings, and its reports of each call to its authors."""
    log = logging.getLogger("nncf")
    level, reports = log.level, os.environ.get(_NO_REPORTS)
    log.setLevel(logging.ERROR)
    os.environ[_NO_REPORTS] = "1"
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        if reports is None:
            del os.environ[_NO_REPORTS]
