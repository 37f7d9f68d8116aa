"""Inner products of rows of bytes with 64 queries at a time, by a single processor instruction.

``vpdpbusd`` (AVX-512 VNNI) multiplies 64 unsigned bytes with 64 signed ones and adds each four products to a
32-bit sum. Each lane of a register belongs to a query, so that nothing is summed across lanes: four bytes of
a row are copied to all lanes and multiplied with the same four dimensions of 16 queries.

``packed`` is (D/4, 64, 4) unsigned bytes: query bytes plus 128, by groups of four dimensions. The 128 adds
128 times the sum of a row to each of its products, which the caller subtracts.

:func:`fetch` prefetches memory, on any processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

# Queries of a group.
LANES = 64
# Rows of a tile: 6 times 4 registers of sums, 4 of queries and one of the row, of 32.
ROWS = 6
_WIDE = 16  # sums of a register
_VECTORS = LANES // _WIDE


def is_available() -> bool:
    """Whether the processor that numba compiles for has the instruction."""
    native = config.CPU_NAME in (None, "", "host") and not config.CPU_FEATURES
    return native and bool(dict(binding.get_host_cpu_features()).get("avx512vnni"))


def pack(queries: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Pack the bytes of at most 64 queries (Q, D), D a multiple of 4, as the tile reads them; flat."""
    count, width = queries.shape
    shifted = np.full((LANES, width), 128, np.uint8)
    shifted[:count] = (queries.astype(np.int16) + 128).astype(np.uint8)
    return np.ascontiguousarray(shifted.reshape(LANES, width // 4, 4).transpose(1, 0, 2)).reshape(-1)


def _tile(rows: int) -> Any:
    """The intrinsic ``(codes, start, width, packed, products)`` for ``rows`` rows from byte ``start`` on.

    ``products`` gets (rows, 64) int32 at its beginning.
    """

    @intrinsic
    def tile(_: Any, codes: Any, start: Any, width: Any, packed: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = [
                context.make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 3, 4)
            ]
            _generate(builder, rows, data, arguments[1], arguments[2])
            return context.get_dummy_value()

        return types.void(codes, start, width, packed, products), generate

    return tile


def _generate(builder: Any, rows: int, data: list[Any], start: Any, width: Any) -> None:
    """The loop over the row's bytes, four at a time."""
    long = ir.IntType(64)
    sum_type = ir.VectorType(ir.IntType(32), _WIDE)
    codes, packed, products = data
    # the older types of this intrinsic, which newer releases of LLVM translate
    name = f"llvm.x86.avx512.vpdpbusd.{32 * _WIDE}"
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(sum_type, [sum_type] * 3), name)
    zero = ir.Constant(sum_type, [0] * _WIDE)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(_VECTORS)] for _ in range(rows)]
    begins = [
        builder.gep(codes, [builder.add(start, builder.mul(width, ir.Constant(long, r)))])
        for r in range(rows)
    ]
    with cgutils.for_range_slice(builder, ir.Constant(long, 0), width, ir.Constant(long, 4)) as (offset, _):
        first = builder.mul(offset, ir.Constant(long, LANES))
        queries = [
            _load(builder, packed, builder.add(first, ir.Constant(long, 4 * _WIDE * v)), sum_type)
            for v in range(_VECTORS)
        ]
        for r in range(rows):
            four = _broadcast(builder, _load(builder, begins[r], offset, ir.IntType(32)), sum_type)
            for v in range(_VECTORS):
                builder.store(builder.call(add, [builder.load(sums[r][v]), queries[v], four]), sums[r][v])
    for r in range(rows):
        for v in range(_VECTORS):
            target = builder.gep(products, [ir.Constant(long, r * LANES + v * _WIDE)])
            builder.store(builder.load(sums[r][v]), builder.bitcast(target, sum_type.as_pointer())).align = 4


def _load(builder: Any, begin: Any, offset: Any, kind: Any) -> Any:
    value = builder.load(builder.bitcast(builder.gep(begin, [offset]), kind.as_pointer()))
    value.align = 1
    return value


def _broadcast(builder: Any, value: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), _WIDE), [0] * _WIDE)
    )


@intrinsic
def fetch(_: Any, codes: Any, offset: Any) -> Any:
    """Prefetch the cache line of byte ``offset``, which may lie outside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [data.type, number, number, number])
        read, keep, is_data = (ir.Constant(number, value) for value in (0, 3, 1))
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        builder.call(prefetch, [builder.gep(data, [arguments[1]]), read, keep, is_data])
        return context.get_dummy_value()

    return types.void(codes, offset), generate


tile_of_rows = _tile(ROWS)
tile_of_one = _tile(1)
