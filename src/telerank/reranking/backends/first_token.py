"""Computing for the first token alone what nothing else is made of.

A classifier reads the first token's output. So in the last layer every other token matters only through its
keys and values: its query, its attention, its feed-forward part are computed for nothing, an eighth of a
model of six layers. :func:`narrow_to_first_token` moves the choice of the first token up through a graph of
OpenVINO, past every node that treats tokens one by one, so that those nodes see one token. Sums are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from openvino import Model
from openvino import opset13 as ops

_ELEMENTWISE = {"Add", "Multiply", "Subtract", "Divide", "SquaredDifference", "Power"}
_UNARY = {"Gelu", "Tanh", "Relu", "Erf", "Sqrt", "Sigmoid", "Swish", "Convert"}

_Input: TypeAlias = tuple[str, int]  # a node's name, the number of its input
_Axes: TypeAlias = dict[int, int]  # which inputs of a node may be cut, each along which axis


def narrow_to_first_token(model: Model) -> int:
    """Change the graph; how many of its nodes now compute for one token."""
    cut: dict[_Input, int] = {}  # inputs of which the first place along an axis is enough
    narrowed = 0
    for node in reversed(model.get_ordered_ops()):  # who takes an output is seen before who gives it
        if _takes_first(node):
            cut[node.get_name(), 0] = 1
            continue
        if node.get_output_size() != 1:
            continue
        takers = [(one, cut.get((one.get_node().get_name(), one.get_index()))) for one in _takers(node)]
        axes = {axis for _, axis in takers}
        if not axes - {None}:
            continue
        axis = axes.pop() if len(axes) == 1 else None
        through = None if axis is None else _inputs_to_cut(node, axis)
        if through is None:
            _cut_here(node, takers)
        else:
            narrowed += 1
            cut.update({(node.get_name(), number): there for number, there in through.items()})
    model.validate_nodes_and_infer_types()
    return narrowed


def _takers(node: Any) -> list[Any]:
    return list(node.output(0).get_target_inputs())


def _takes_first(node: Any) -> bool:
    """Whether it picks the first place along axis 1 of (B, L, H)."""
    if node.get_type_name() != "Gather" or _rank(node.input_value(0)) != 3:
        return False
    index, axis = (_constant(node, number) for number in (1, 2))
    return index is not None and axis is not None and index.tolist() == [0] and axis.tolist() == [1]


def _cut_here(node: Any, takers: list[tuple[Any, int | None]]) -> None:
    made: dict[int, Any] = {}
    for taker, axis in takers:
        if axis is not None:
            if axis not in made:
                begin, end, step, along = (ops.constant(np.array([one], np.int64)) for one in (0, 1, 1, axis))
                made[axis] = ops.slice(node.output(0), begin, end, step, along).output(0)
            taker.replace_source_output(made[axis])


def _inputs_to_cut(node: Any, axis: int) -> _Axes | None:
    """Of which inputs the first place is enough for the output's; None where that is not known."""
    name, rank = node.get_type_name(), _rank(node.output(0))
    if rank < 0 or any(_rank(one) < 0 for one in node.input_values()):
        return None
    if name in _UNARY:
        return {0: axis}
    if name in _ELEMENTWISE:
        return _where_wide(node, axis, range(2))
    return _RULES[name](node, axis, rank) if name in _RULES else None


def _product(node: Any, axis: int, rank: int) -> _Axes | None:
    by_weights = _rank(node.input_value(1)) == 2 and not node.get_attributes()["transpose_a"]
    return {0: axis} if by_weights and axis < rank - 1 else None


def _normalised(node: Any, axis: int, rank: int) -> _Axes | None:
    over = _constant(node, 1)
    return {0: axis} if over is not None and all(one % rank != axis for one in over.tolist()) else None


def _transposed(node: Any, axis: int, _rank: int) -> _Axes | None:
    order = _constant(node, 1)
    return None if order is None else {0: int(order[axis])}


def _attended(node: Any, axis: int, rank: int) -> _Axes | None:
    """The first query, and the first row of the mask: keys and values are those of all tokens."""
    if axis != rank - 2:
        return None
    return {0: axis, **(_where_wide(node, axis, range(3, 4)) if node.get_input_size() > 3 else {})}


def _reshaped(node: Any, axis: int, _rank: int) -> _Axes | None:
    return {0: axis} if _leaves_alone(node, axis) else None


_RULES: Mapping[str, Callable[[Any, int, int], _Axes | None]] = {
    "MatMul": _product,
    "MVN": _normalised,
    "Transpose": _transposed,
    "ScaledDotProductAttention": _attended,
    "Reshape": _reshaped,
}


def _where_wide(node: Any, axis: int, inputs: range) -> _Axes:
    """Inputs that are not broadcast along the output's axis."""
    rank = _rank(node.output(0))
    found = {}
    for number in inputs:
        there = axis - rank + _rank(node.input_value(number))
        if there >= 0 and _sizes(node.input_value(number))[there] != 1:
            found[number] = there
    return found


def _leaves_alone(node: Any, axis: int) -> bool:
    """Whether a Reshape keeps the axes up to ``axis``, whatever its size."""
    shape, zero_keeps = _constant(node, 1), node.get_attributes()["special_zero"]
    if shape is None:
        return False
    wanted, sizes = shape.tolist(), _sizes(node.input_value(0))
    kept = all((one == 0 and zero_keeps) or one == sizes[at] for at, one in enumerate(wanted[:axis]))
    before, behind = sizes[axis + 1 :], wanted[axis + 1 :]
    if not kept or None in before:
        return False
    product = int(np.prod([one for one in before if one is not None]))
    if wanted[axis] == 0 and zero_keeps:
        return True
    return wanted[axis] == -1 and 0 not in behind and product == int(np.prod(behind))


def _rank(output: Any) -> int:
    found = output.get_partial_shape().rank
    return int(found.get_length()) if found.is_static else -1


def _sizes(output: Any) -> list[int | None]:
    return [int(one.get_length()) if one.is_static else None for one in output.get_partial_shape()]


def _constant(node: Any, number: int) -> Any:
    """The values of a constant input, flat; None where it is none."""
    given = node.input_value(number).get_node()
    return np.ravel(given.data) if given.get_type_name() == "Constant" else None
