"""The back end ``openvino``: the transformer as OpenVINO's graph, in float32, bfloat16 or int8.

For int8, NNCF quantises weights and their factors by ranges that it measures on sample pairs (static
quantisation). The rest is computed in bfloat16, if the processor has that. Processors without VNNI add two
products of bytes in 16 bits, which overflows: there weights get 7 bits.

A classifier reads the first token's output. So in the last layer every other token matters only through its
keys and values: its query, its attention and its feed-forward part, an eighth of a model of six layers, are
not needed. :func:`narrow_to_first_token` moves the choice of the first token up through the graph, past every
node that treats tokens separately, so that those nodes get one token. Results are the same.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import openvino
from llvmlite.binding import get_host_cpu_features
from openvino import Model
from openvino import opset13 as ops
from openvino._offline_transformations import apply_moc_transformations
from openvino.frontend import FrontEndManager
from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

from telerank.errors import MissingExtra, ModelError
from telerank.models.pairs.pair import PairBatch
from telerank.reranking.backends import (
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

_ELEMENTWISE = {"Add", "Multiply", "Subtract", "Divide", "SquaredDifference", "Power"}
_UNARY = {"Gelu", "Tanh", "Relu", "Erf", "Sqrt", "Sigmoid", "Swish", "Convert"}

_Axes: TypeAlias = dict[int, int]  # which inputs of a node may be cut, each along which axis


def narrow_to_first_token(model: Model) -> int:
    """Change the graph; return how many of its nodes now compute for one token."""
    cut: dict[tuple[str, int], int] = {}  # (node, input) -> the axis whose first element is enough
    narrowed = 0
    for node in reversed(model.get_ordered_ops()):  # the users of an output come before its node
        if _takes_first(node):
            cut[node.get_name(), 0] = 1
            continue
        if node.get_output_size() != 1:
            continue
        targets = [
            (target, cut.get((target.get_node().get_name(), target.get_index())))
            for target in node.output(0).get_target_inputs()
        ]
        axes = {axis for _, axis in targets}
        if not axes - {None}:
            continue
        axis = axes.pop() if len(axes) == 1 else None
        through = None if axis is None else _inputs_to_cut(node, axis)
        if through is None:
            _cut_output(node, targets)
        else:
            narrowed += 1
            cut.update({(node.get_name(), number): along for number, along in through.items()})
    model.validate_nodes_and_infer_types()
    return narrowed


def _takes_first(node: Any) -> bool:
    """Whether a node takes the first element along axis 1 of (B, L, H)."""
    if node.get_type_name() != "Gather" or _rank(node.input_value(0)) != 3:
        return False
    index, axis = (_constant(node, number) for number in (1, 2))
    return index is not None and axis is not None and index.tolist() == [0] and axis.tolist() == [1]


def _cut_output(node: Any, targets: list[tuple[Any, int | None]]) -> None:
    slices: dict[int, Any] = {}
    for target, axis in targets:
        if axis is not None:
            if axis not in slices:
                begin, end, step, along = (ops.constant(np.array([n], np.int64)) for n in (0, 1, 1, axis))
                slices[axis] = ops.slice(node.output(0), begin, end, step, along).output(0)
            target.replace_source_output(slices[axis])


def _inputs_to_cut(node: Any, axis: int) -> _Axes | None:
    """The inputs of which the first element is enough for that of the output; None if that is unknown."""
    rule, rank = _RULES.get(node.get_type_name()), _rank(node.output(0))
    if rule is None or rank < 0 or any(_rank(value) < 0 for value in node.input_values()):
        return None
    return rule(node, axis, rank)


def _product(node: Any, axis: int, rank: int) -> _Axes | None:
    by_weights = _rank(node.input_value(1)) == 2 and not node.get_attributes()["transpose_a"]
    return {0: axis} if by_weights and axis < rank - 1 else None


def _normalisation(node: Any, axis: int, rank: int) -> _Axes | None:
    over = _constant(node, 1)
    return {0: axis} if over is not None and all(number % rank != axis for number in over.tolist()) else None


def _transpose(node: Any, axis: int, _rank: int) -> _Axes | None:
    order = _constant(node, 1)
    return None if order is None else {0: int(order[axis])}


def _attention(node: Any, axis: int, rank: int) -> _Axes | None:
    """The first query and the first row of the mask; keys and values of all tokens."""
    if axis != rank - 2:
        return None
    return {0: axis, **(_unbroadcast_inputs(node, axis, range(3, 4)) if node.get_input_size() > 3 else {})}


def _reshape(node: Any, axis: int, _rank: int) -> _Axes | None:
    """The first along ``axis``, if the axes up to it are kept, for any size of it."""
    shape, zero_keeps = _constant(node, 1), node.get_attributes()["special_zero"]
    if shape is None:
        return None
    target, sizes = shape.tolist(), _sizes(node.input_value(0))
    kept = all((size == 0 and zero_keeps) or size == sizes[at] for at, size in enumerate(target[:axis]))
    before, behind = sizes[axis + 1 :], target[axis + 1 :]
    if not kept or None in before:
        return None
    same = target[axis] == -1 and 0 not in behind and math.prod(before) == math.prod(behind)
    return {0: axis} if same or (target[axis] == 0 and zero_keeps) else None


_RULES: Mapping[str, Callable[[Any, int, int], _Axes | None]] = {
    **dict.fromkeys(_UNARY, lambda _node, axis, _rank: {0: axis}),
    **dict.fromkeys(_ELEMENTWISE, lambda node, axis, _rank: _unbroadcast_inputs(node, axis, range(2))),
    "MatMul": _product,
    "MVN": _normalisation,
    "Transpose": _transpose,
    "ScaledDotProductAttention": _attention,
    "Reshape": _reshape,
}


def _unbroadcast_inputs(node: Any, axis: int, inputs: range) -> _Axes:
    """Inputs that are not broadcast along the output's axis."""
    rank = _rank(node.output(0))
    axes = {}
    for number in inputs:
        along = axis - rank + _rank(node.input_value(number))
        if along >= 0 and _sizes(node.input_value(number))[along] != 1:
            axes[number] = along
    return axes


def _rank(output: Any) -> int:
    rank = output.get_partial_shape().rank
    return int(rank.get_length()) if rank.is_static else -1


def _sizes(output: Any) -> list[Any]:
    """The size of each axis; None if it is not known."""
    return [int(size.get_length()) if size.is_static else None for size in output.get_partial_shape()]


def _constant(node: Any, number: int) -> Any:
    """The values of a constant input, flat; None if it is not constant."""
    source = node.input_value(number).get_node()
    return np.ravel(source.data) if source.get_type_name() == "Constant" else None


_FILE = "model.xml"
_PACKAGES = ("openvino",)
_NO_REPORTS = "NNCF_CI"  # read when NNCF is imported


def compute(model: PairModel, precision: str, count: int | None, samples: Samples) -> Compute:
    """Compute with a graph, whose weights are mapped from the disk.

    Raises ModelError if the processor has no bfloat16, the graph gives other outputs than the model, or int8
    has no samples for calibration; MissingExtra if int8 is chosen and NNCF is not installed.
    """
    core = openvino.Core()
    has_bfloat16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if precision == "bfloat16" and not has_bfloat16:
        raise ModelError("openvino: this processor does not compute in bfloat16: choose float32")
    what = {"backend": "openvino", "precision": "float32"}
    folder = cache_graph(model, what, _PACKAGES, lambda into: _export(core, model, into))
    if precision == "int8":
        folder = _quantised_graph(core, model, folder, samples)
    hint = "bf16" if precision != "float32" and has_bfloat16 else "f32"
    run = _compile(core, core.read_model(folder / _FILE), hint, count)
    return compute_with_graph(model, run, count)


def _compile(core: Any, graph: Any, hint: str, count: int | None) -> RunGraph:
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": hint, "NUM_STREAMS": 1}
    if count is not None:
        options["INFERENCE_NUM_THREADS"] = count
    request = core.compile_model(graph, "CPU", options).create_infer_request()
    names = [node.any_name for node in graph.inputs]
    return lambda inputs: request.infer([inputs[name] for name in names], share_inputs=True)[0]


def _export(core: Any, model: PairModel, folder: Path) -> None:
    # as ``openvino.convert_model``, which reports each call to its authors
    frontend = FrontEndManager().load_by_framework("pytorch")
    with tracing():
        inputs = example_inputs(model.texts.pad_id)
        decoder = TorchScriptPythonDecoder(TraceableTransformer(model.network), example_input=inputs)
        graph = frontend.convert(frontend.load(decoder))
        apply_moc_transformations(graph, cf=False, smart_reshape=True)
    narrow_to_first_token(graph)
    check_graph(model, _compile(core, graph, "f32", None))
    openvino.save_model(graph, folder / _FILE, compress_to_fp16=False)


def _quantised_graph(core: Any, model: PairModel, exact: Path, samples: Samples) -> Path:
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
    if _overflows():
        what["weights"] = "7 bits"
    return cache_graph(model, what, (*_PACKAGES, "nncf"), lambda into: _quantise(core, exact, batches, into))


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
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix="enable" if _overflows() else "first_layer_only"
            ),
        )
    openvino.save_model(quantised, folder / _FILE, compress_to_fp16=False)


def _overflows() -> bool:
    """Whether the processor adds two products of bytes in 16 bits."""
    features = dict(get_host_cpu_features())
    return "avx2" in features and not (features.get("avx512vnni") or features.get("avxvnni"))


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
