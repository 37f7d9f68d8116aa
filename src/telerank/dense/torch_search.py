"""Exact search with torch, for a GPU: its products select the rows that can be among the best.

These are then scored from the vectors, so that the result equals that of
:func:`telerank.dense.search.search` to the bit.

The error of a float32 inner product, summed in any order, is at most D 2^-23 |q| |x|; if torch may multiply
with fewer digits (TF32, bfloat16), it is at most 2^-7 |q| |x|.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telerank.dense.kinds import Floats
from telerank.dense.search import Hits, rank_rows
from telerank.dense.vectors import Encoded, Vectors

_BLOCK = 1 << 16  # rows multiplied at a time
_TOGETHER = 64  # queries
_SHARE = 0.7  # of the device's free memory that vectors may take
_STREAMED = 1 << 13  # rows copied at a time if they do not fit


class _Block(NamedTuple):
    """Vectors (n, D) of consecutive rows from row ``first`` on, and their lengths (n,)."""

    first: int
    vectors: Tensor
    lengths: Tensor


class DeviceVectors:
    """Vectors on a device in their stored type; copied for each search if they do not fit there."""

    def __init__(self, vectors: Vectors, device: str) -> None:
        self.vectors, self.device = vectors, torch.device(device)
        size = len(vectors) * vectors.dimension * (4 if vectors.dtype in ("float32", "int8") else 2)
        self.is_resident = size <= _SHARE * self._free()
        self._kept = list(self._copy(_BLOCK)) if self.is_resident else []

    def search(self, queries: Encoded, k: int) -> list[Hits]:
        """The ``k`` best rows for each query, as :func:`telerank.dense.search.search` gives them."""
        targets = self.vectors.require(queries)
        answers: list[Hits] = []
        for begin in range(0, len(targets), _TOGETHER):
            answers += self._search(targets[begin : begin + _TOGETHER], k)
        return answers

    def _search(self, queries: Floats, k: int) -> list[Hits]:
        targets = torch.from_numpy(queries).to(self.device)  # (Q, D)
        lengths = targets.norm(dim=1) * self._error()  # (Q,)
        best = torch.full((len(queries), 0), -torch.inf, device=self.device)
        candidates: list[list[np.ndarray]] = []  # of each block: queries, rows, greatest scores
        with torch.inference_mode():
            for block in self._kept or self._copy(_STREAMED):
                products = targets @ block.vectors.float().T  # (Q, n)
                margins = lengths[:, None] * block.lengths + 1e-36
                best = torch.cat((best, products - margins), dim=1)
                best = best.topk(min(k, best.shape[1]), dim=1).values
                # every row may be among the best until k rows were scored
                least = best[:, -1] if best.shape[1] == k else torch.full_like(lengths, -torch.inf)
                highest = products + margins
                numbers, columns = (highest >= least[:, None]).nonzero(as_tuple=True)
                arrays = (numbers, columns + block.first, highest[numbers, columns])
                candidates.append([array.cpu().numpy() for array in arrays])
        numbers, rows, spans = (np.concatenate(arrays) for arrays in zip(*candidates, strict=True))
        kept = spans >= least.cpu().numpy()[numbers]
        return [
            rank_rows(self.vectors, rows[kept & (numbers == number)], query, k)
            for number, query in enumerate(queries)
        ]

    def _error(self) -> float:
        exact = torch.get_float32_matmul_precision() == "highest"
        return (self.vectors.dimension + 8) * 2.0**-23 if exact else 2.0**-7

    def _copy(self, size: int) -> Iterator[_Block]:
        for shard in self.vectors.shards:
            lengths = torch.from_numpy((shard.bounds[:, 1] + shard.bounds[:, 2]) * np.float32(1.0001))
            for begin in range(0, len(shard), size):
                end = min(begin + size, len(shard))
                wide = torch.from_numpy(self.vectors.widen(shard, slice(begin, end)))
                copied = wide.to(self._kind()).to(self.device)
                yield _Block(shard.first + begin, copied, lengths[begin:end].to(self.device))

    def _kind(self) -> torch.dtype:
        """The type that holds the stored numbers exactly."""
        return {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(self.vectors.dtype, torch.float32)

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0


@lru_cache(maxsize=4)
def load_on_device(vectors: Vectors, device: str) -> DeviceVectors:
    """Load vectors onto a device; the last few stay there."""
    return DeviceVectors(vectors, device)
