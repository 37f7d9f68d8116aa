"""Inner products of rows of bytes with 64 queries at a time, by a single processor instruction.

``vpdpbusd`` (AVX-512 VNNI) multiplies 64 unsigned bytes with 64 signed ones and adds each four products to a
32-bit sum. Each lane of a register belongs to a query, so that nothing is summed across lanes: four bytes of
a row are copied to all lanes and multiplied with the same four dimensions of 16 queries.

``packed`` is (D/4, 64, 4) unsigned bytes: query bytes plus 128, by groups of four dimensions. The 128 adds
128 times the sum of a row to each of its products, which the caller subtracts.

Other processors have ``vpmaddwd`` (AVX2) at half the rate: it adds the products of 16-bit numbers by twos.
``packed`` is then (2, D/2, 32, 2) int16, with nothing added; a tile knows it by its type.
:func:`pack` chooses.

:func:`fetch` prefetches memory, on any processor.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

# The features of the two instructions.
VNNI, AVX2 = "avx512vnni", "avx2"
_SHIFT = 128  # added to a query's byte, which the first instruction takes without a sign
# Queries of a group.
LANES = 64
# Rows of a tile: 6 times 4 registers of sums, 4 of queries and one of the row, of 32.
ROWS = 6
_WIDE = 16  # sums of a register
_NARROW = 8  # the same of AVX2, of whose 16 registers two rows of 32 queries take most
# The same for 32 queries: 12 times 2 registers of sums.
FEW_LANES, FEW_ROWS = 32, 12
_FUSED = ("contract",)  # a product and a sum may be one instruction


def is_available() -> bool:
    """Whether the processor that numba compiles for has one of the instructions."""
    return has(VNNI) or has(AVX2)


def has(feature: str) -> bool:
    """Whether the processor that numba compiles for has a feature."""
    native = config.CPU_NAME in (None, "", "host") and not config.CPU_FEATURES
    return native and feature in _features()


@cache
def _features() -> frozenset[str]:
    return frozenset(name for name, has in dict(binding.get_host_cpu_features()).items() if has)


def largest_word(width: int) -> int:
    """The largest number of 16 bits whose products with ``width`` bytes add up to one of 32 bits."""
    return min(32767, (2**31 - 1) // (127 * width))


def largest_code(width: int) -> int:
    """The largest number that :func:`pack` takes."""
    return 127 if has(VNNI) else largest_word(width)


def pack(codes: npt.NDArray[np.float64], lanes: int = LANES) -> tuple[npt.NDArray[Any], int]:
    """Pack at most ``lanes`` queries for a tile, and say what was added to each code.

    codes: whole numbers (Q, D), D a multiple of 4, of at most :func:`largest_code` in size.
    """
    padded = np.zeros((lanes, codes.shape[1]))
    padded[: len(codes)] = codes
    if has(VNNI):
        return _by_groups((padded + _SHIFT).astype(np.uint8), 4), _SHIFT
    words = padded.astype(np.int16)
    parts = [_by_groups(words[lane : lane + FEW_LANES], 2) for lane in range(0, lanes, FEW_LANES)]
    return np.concatenate(parts), 0


def _by_groups(padded: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    lanes, width = padded.shape
    return np.ascontiguousarray(padded.reshape(lanes, width // size, size).transpose(1, 0, 2)).reshape(-1)


def _tile(rows: int, lanes: int) -> Any:
    """The intrinsic ``(codes, start, width, packed, products)`` for ``rows`` rows from byte ``start`` on.

    ``products`` gets (rows, lanes) int32 at its beginning.
    """

    @intrinsic
    def tile(_: Any, codes: Any, start: Any, width: Any, packed: Any, products: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = [
                context.make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 3, 4)
            ]
            start, width = arguments[1:3]
            if packed.dtype == types.uint8:
                _generate(builder, (rows, lanes // _WIDE), data, start, width)
                return context.get_dummy_value()
            _generate_words(builder, (rows, lanes), data, start, width)
            return context.get_dummy_value()

        return types.void(codes, start, width, packed, products), generate

    return tile


def _generate(builder: Any, sizes: tuple[int, int], data: list[Any], start: Any, width: Any) -> None:
    """The loop over the row's bytes, four at a time; ``sizes`` are rows, and registers of each."""
    rows, vectors = sizes
    long = ir.IntType(64)
    sum_type = ir.VectorType(ir.IntType(32), _WIDE)
    codes, packed, products = data
    # the older types of this intrinsic, which newer releases of LLVM translate
    name = f"llvm.x86.avx512.vpdpbusd.{32 * _WIDE}"
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(sum_type, [sum_type] * 3), name)
    zero = ir.Constant(sum_type, [0] * _WIDE)
    sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(vectors)] for _ in range(rows)]
    begins = [
        builder.gep(codes, [builder.add(start, builder.mul(width, ir.Constant(long, r)))])
        for r in range(rows)
    ]
    with cgutils.for_range_slice(builder, ir.Constant(long, 0), width, ir.Constant(long, 4)) as (offset, _):
        first = builder.mul(offset, ir.Constant(long, vectors * _WIDE))
        queries = [
            _load(builder, packed, builder.add(first, ir.Constant(long, 4 * _WIDE * v)), sum_type)
            for v in range(vectors)
        ]
        for r in range(rows):
            four = _broadcast(builder, _load(builder, begins[r], offset, ir.IntType(32)), sum_type)
            for v in range(vectors):
                builder.store(builder.call(add, [builder.load(sums[r][v]), queries[v], four]), sums[r][v])
    for r in range(rows):
        for v in range(vectors):
            target = builder.gep(products, [ir.Constant(long, (r * vectors + v) * _WIDE)])
            builder.store(builder.load(sums[r][v]), builder.bitcast(target, sum_type.as_pointer())).align = 4


def _generate_words(builder: Any, sizes: tuple[int, int], data: list[Any], start: Any, width: Any) -> None:
    """The same for AVX2: 32 queries after others, two rows at a time, and of these two bytes at a time."""
    rows, lanes = sizes
    codes, packed, products = data
    long = ir.IntType(64)
    part = builder.mul(width, ir.Constant(long, FEW_LANES))  # numbers of 32 queries
    for row in range(0, rows, 2):
        first = builder.add(start, builder.mul(width, ir.Constant(long, row)))
        for lane in range(0, lanes, FEW_LANES):
            targets = [
                builder.gep(products, [ir.Constant(long, r * lanes + lane)])
                for r in range(row, min(row + 2, rows))
            ]
            queries = builder.gep(packed, [builder.mul(part, ir.Constant(long, lane // FEW_LANES))])
            _multiply_words(builder, (codes, queries), targets, first, width)


def _multiply_words(builder: Any, data: tuple[Any, Any], targets: list[Any], start: Any, width: Any) -> None:
    """The products of a row for each of the targets, one after the other from ``start``, with 32 queries."""
    codes, packed = data
    long, vectors = ir.IntType(64), FEW_LANES // _NARROW
    sum_type, words = ir.VectorType(ir.IntType(32), _NARROW), ir.VectorType(ir.IntType(16), 2 * _NARROW)
    kind = ir.FunctionType(sum_type, [words, words])
    multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
    zero = ir.Constant(sum_type, [0] * _NARROW)
    sums = [[cgutils.alloca_once(builder, sum_type) for _ in range(vectors)] for _ in targets]
    for total in (total for row in sums for total in row):
        builder.store(zero, total)
    with cgutils.for_range_slice(builder, ir.Constant(long, 0), width, ir.Constant(long, 2)) as (offset, _):
        first = builder.mul(offset, ir.Constant(long, FEW_LANES))
        queries = [
            _load(builder, packed, builder.add(first, ir.Constant(long, 2 * _NARROW * v)), words)
            for v in range(vectors)
        ]
        for r, row in enumerate(sums):
            begin = builder.add(start, builder.mul(width, ir.Constant(long, r)))
            two = _load(builder, codes, builder.add(begin, offset), ir.IntType(16))
            copies = builder.bitcast(
                _broadcast(builder, two, words), ir.VectorType(ir.IntType(8), 4 * _NARROW)
            )
            pairs = builder.sext(builder.shuffle_vector(copies, copies, _numbers(range(2 * _NARROW))), words)
            for query, total in zip(queries, row, strict=True):
                product = builder.call(multiply, [query, pairs])
                builder.store(builder.add(builder.load(total), product), total)
    for target, row in zip(targets, sums, strict=True):
        for v, total in enumerate(row):
            _store(builder, builder.load(total), target, ir.Constant(long, v * _NARROW))


def _load(builder: Any, begin: Any, offset: Any, kind: Any) -> Any:
    value = builder.load(builder.bitcast(builder.gep(begin, [offset]), kind.as_pointer()))
    value.align = 1
    return value


def _broadcast(builder: Any, value: Any, kind: Any) -> Any:
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, _numbers([0] * kind.count))


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


@intrinsic
def bound_rows(_: Any, products: Any, rows: Any, numbers: Any, values: Any, least: Any) -> Any:
    """The bounds of the products of rows with 32 queries, whose bytes are ``products`` (N, 32).

    ``rows`` (N, 4) float32 has of each row its scale, 0, its length and the sum of its bytes; ``numbers``
    (65,) the scales and the rounding errors of 32 queries, and what was added to each of their codes.
    ``values`` (N, 32) gets the largest possible products, ``least`` (32,) the largest of the least ones.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, real, long = ir.VectorType(ir.IntType(32), _WIDE), ir.FloatType(), ir.IntType(64)
        reals, vectors = ir.VectorType(real, _WIDE), range(FEW_LANES // _WIDE)
        arrays = [
            context.make_array(kind)(context, builder, given)
            for kind, given in zip(signature.args, arguments, strict=True)
        ]
        bytes_, of_rows, of_queries, largest, lowest = (array.data for array in arrays)
        lanes = [ir.Constant(long, v * _WIDE) for v in vectors]
        scales, errors = (
            [_load(builder, of_queries, ir.Constant(long, part + v * _WIDE), reals) for v in vectors]
            for part in (0, FEW_LANES)
        )
        added = _load(builder, of_queries, ir.Constant(long, 2 * FEW_LANES), real)
        nothing = ir.Constant(reals, [float("-inf")] * _WIDE)
        lows = [cgutils.alloca_once_value(builder, nothing) for _ in vectors]
        count = builder.extract_value(arrays[1].shape, 0)
        with cgutils.for_range(builder, count, intp=long) as loop:
            own, first = (builder.mul(loop.index, ir.Constant(long, size)) for size in (4, FEW_LANES))
            scale, norm, total = (
                _load(builder, of_rows, builder.add(own, ir.Constant(long, n)), real) for n in (0, 2, 3)
            )
            shift = builder.fptosi(builder.fmul(total, added), ir.IntType(32))
            shifts = _broadcast(builder, shift, whole)
            scale, norm = _broadcast(builder, scale, reals), _broadcast(builder, norm, reals)
            for v in vectors:
                at = builder.add(first, lanes[v])
                counts = builder.sitofp(builder.sub(_load(builder, bytes_, at, whole), shifts), reals)
                middle = builder.fmul(counts, builder.fmul(scale, scales[v]))
                margin = builder.fmul(norm, errors[v])
                _store(builder, builder.fadd(middle, margin), largest, at)
                low, before = builder.fsub(middle, margin), builder.load(lows[v])
                builder.store(builder.select(builder.fcmp_ordered(">", low, before), low, before), lows[v])
        for v in vectors:
            _store(builder, builder.load(lows[v]), lowest, lanes[v])
        return context.get_dummy_value()

    return types.void(products, rows, numbers, values, least), generate


@intrinsic
def count_zeros(_: Any, _bits: Any) -> Any:
    """How many bits of an integer, not 0, are 0 below its lowest 1."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def reach_least(_: Any, values: Any, start: Any, least: Any) -> Any:
    """Which of 32 numbers from ``start`` on are not below those of ``least``: the bits of an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        real, half, word = ir.VectorType(ir.FloatType(), _WIDE), ir.IntType(_WIDE), ir.IntType(64)
        data = [context.make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 2)]
        bits = ir.Constant(word, 0)
        for v in range(FEW_LANES // _WIDE):
            first = ir.Constant(word, v * _WIDE)
            high = _load(builder, data[0], builder.add(arguments[1], first), real)
            flags = builder.fcmp_ordered(">=", high, _load(builder, data[1], first, real))
            part = builder.zext(builder.bitcast(flags, half), word)
            bits = builder.or_(bits, builder.shl(part, first))
        return bits

    return types.int64(values, start, least), generate


@intrinsic
def multiply_exactly(_: Any, codes: Any, start: Any, numbers: Any, begin: Any, width: Any) -> Any:
    """The product of ``width`` bytes from ``start`` on with as many float64 numbers, a multiple of 16."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        long, bytes_, reals = (
            ir.IntType(64),
            ir.VectorType(ir.IntType(8), 8),
            ir.VectorType(ir.DoubleType(), 8),
        )
        data = [context.make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 2)]
        zero = ir.Constant(reals, [0.0] * 8)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        step = ir.Constant(long, 16)
        with cgutils.for_range_slice(builder, ir.Constant(long, 0), arguments[4], step) as (offset, _):
            for number, total in enumerate(sums):
                at = builder.add(offset, ir.Constant(long, 8 * number))
                row = builder.sitofp(_load(builder, data[0], builder.add(arguments[1], at), bytes_), reals)
                other = _load(builder, data[1], builder.add(arguments[3], at), reals)
                product = builder.fmul(row, other, flags=_FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=_FUSED), total)
        both = builder.fadd(*(builder.load(total) for total in sums))
        for half in (4, 2, 1):  # neighbours are added
            left, right = (
                builder.shuffle_vector(both, both, _numbers(range(first, 2 * half, 2))) for first in (0, 1)
            )
            both = builder.fadd(left, right)
        return builder.extract_element(both, ir.Constant(ir.IntType(32), 0))

    return types.float64(codes, start, numbers, begin, width), generate


def _numbers(numbers: Iterable[int]) -> Any:
    chosen = list(numbers)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)


def _store(builder: Any, value: Any, begin: Any, offset: Any) -> None:
    target = builder.bitcast(builder.gep(begin, [offset]), value.type.as_pointer())
    builder.store(value, target).align = 1


tile_of_rows, tile_of_one = _tile(ROWS, LANES), _tile(1, LANES)
few_of_rows, few_of_one = _tile(FEW_ROWS, FEW_LANES), _tile(1, FEW_LANES)
