"""Exact search with torch, for a GPU: its products select the rows that can be among the best.

These are then scored from the vectors, so that the result equals that of
:func:`telerank.dense.search.search` to the bit.

The error of a float32 inner product, summed in any order, is at most D 2^-23 |q| |x|; if torch may multiply
with fewer digits (TF32, bfloat16), it is at most 2^-7 |q| |x|.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from telerank.dense.kinds import Floats
from telerank.dense.search import TOGETHER, WHOLE, Hits, rank_exhaustively, rank_rows
from telerank.dense.vectors import Encoded, Vectors, VectorShard
from telerank.models.inference import pin
from telerank.models.precision import multiplies_exactly

T = TypeVar("T")

_BLOCK = 1 << 16  # rows that are kept, or copied, together
_PRODUCTS = 1 << 24  # inner products that are computed at a time
_SHARE = 0.7  # of the device's free memory that vectors may take
_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class _Block(NamedTuple):
    """Vectors (n, D) of consecutive rows from row ``first`` on, and their lengths (n,)."""

    first: int
    vectors: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> _Block:
        vectors, lengths = (tensor.to(device, non_blocking=True) for tensor in (self.vectors, self.lengths))
        return _Block(self.first, vectors, lengths)

    def divide(self, size: int) -> Iterator[_Block]:
        """Blocks of ``size`` rows."""
        for begin in range(0, len(self.lengths), size):
            part = slice(begin, begin + size)
            yield _Block(self.first + begin, self.vectors[part], self.lengths[part])


class DeviceVectors:
    """Vectors on a device in their stored type; copied for each search if they do not fit there.

    ``blocks`` are those that are on the device already; none if they do not fit.
    """

    def __init__(self, vectors: Vectors, device: str, blocks: list[_Block] | None = None) -> None:
        self.vectors, self.device = vectors, torch.device(device)
        if blocks is None:
            size = len(vectors) * vectors.dimension * (4 if vectors.dtype in ("float32", "int8") else 2)
            blocks = list(self._copy()) if size <= _SHARE * self._free() else []
        self.blocks = blocks

    @property
    def is_resident(self) -> bool:
        return bool(self.blocks)

    def search(self, queries: Encoded, k: int) -> list[Hits]:
        """The ``k`` best rows for each query, as :func:`telerank.dense.search.search` gives them."""
        targets = self.vectors.require(queries)
        if k * WHOLE >= len(self.vectors):
            return [rank_exhaustively(self.vectors, query, k) for query in targets]
        answers: list[Hits] = []
        for begin in range(0, len(targets), TOGETHER):
            answers += self._search(targets[begin : begin + TOGETHER], k)
        return answers

    def _search(self, queries: Floats, k: int) -> list[Hits]:
        targets = torch.from_numpy(queries).to(self.device)  # (Q, D)
        lengths = targets.norm(dim=1) * self._error()  # (Q,)
        best = torch.full((len(queries), 0), -torch.inf, device=self.device)
        candidates: list[tuple[Tensor, Tensor, Tensor]] = []  # of each block: queries, rows, greatest scores
        step = max(1, _PRODUCTS // len(queries))
        with torch.inference_mode():
            for block in (part for whole in self.blocks or self._copy() for part in whole.divide(step)):
                products = targets @ block.vectors.float().T  # (Q, n)
                margins = lengths[:, None] * block.lengths + 1e-36
                best = torch.cat((best, products - margins), dim=1)
                best = best.topk(min(k, best.shape[1]), dim=1).values
                # every row may be among the best until k rows were scored
                least = best[:, -1] if best.shape[1] == k else torch.full_like(lengths, -torch.inf)
                highest = products + margins
                numbers, columns = (highest >= least[:, None]).nonzero(as_tuple=True)
                candidates.append((numbers, columns + block.first, highest[numbers, columns]))
            numbers, rows, spans = (torch.cat(tensors) for tensors in zip(*candidates, strict=True))
            best_rows = torch.stack((numbers, rows))[:, spans >= least[numbers]].cpu().numpy()
        order = np.argsort(best_rows[0], kind="stable")
        ends = np.searchsorted(best_rows[0][order], np.arange(1, len(queries)))
        parts = np.split(best_rows[1][order], ends)
        return [rank_rows(self.vectors, part, query, k) for part, query in zip(parts, queries, strict=True)]

    def _error(self) -> float:
        exact = multiplies_exactly(self.device)
        return (self.vectors.dimension + 8) * 2.0**-23 if exact else 2.0**-7

    def _copy(self) -> Iterator[_Block]:
        """All blocks on the device; while one is searched the next is read."""
        return (block.to(self.device) for block in _ahead(self._read()))

    def _read(self) -> Iterator[_Block]:
        for shard in self.vectors.shards:
            lengths = torch.from_numpy((shard.bounds[:, 1] + shard.bounds[:, 2]) * np.float32(1.0001))
            for begin in range(0, len(shard), _BLOCK):
                rows = slice(begin, min(begin + _BLOCK, len(shard)))
                vectors = pin(self._stored(shard, rows), self.device)
                yield _Block(shard.first + begin, vectors, pin(lengths[rows], self.device))

    def _stored(self, shard: VectorShard, rows: slice) -> Tensor:
        """Rows of a shard in a type that holds the stored numbers exactly: halves as they are stored."""
        half = _HALVES.get(self.vectors.dtype)
        if half is None:
            return torch.from_numpy(self.vectors.widen(shard, rows))
        return torch.from_numpy(np.array(shard.vectors[rows]).view(np.int16)).view(half)

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0


def load_on_device(vectors: Vectors, device: str) -> DeviceVectors:
    """Load vectors onto a device, if they fit; they stay there as long as these vectors are in use."""
    loaded = _LOADED.setdefault(vectors, {})
    on_device = DeviceVectors(vectors, device, loaded.get(device))
    loaded[device] = on_device.blocks
    return on_device


_LOADED: WeakKeyDictionary[Vectors, dict[str, list[_Block]]] = WeakKeyDictionary()
"""Blocks by device; they do not refer to the vectors."""


def _ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each of which is read while the one before is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, "reading") as pool:
        waiting = pool.submit(next, iterator, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, iterator, None)
            yield item
