"""Exact search by torch, for a GPU: products there say which rows can be among the best.

The vectors' own scores decide among them: what is found is, to the bit, what
:func:`telerank.dense.search.search` finds.

A product of float32 numbers summed in any order is off by at most D 2^-23 |q| |x|; where torch is allowed to
multiply with fewer digits (TF32, bfloat16), by 2^-7 |q| |x|.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telerank.dense.kinds import Floats, check_vectors
from telerank.dense.search import Found, best_among
from telerank.dense.vectors import Encoded, Vectors

_BLOCK = 1 << 16  # rows multiplied at a time
_TOGETHER = 64  # queries
_SHARE = 0.7  # of the device's free memory that vectors may stay in
_STREAMED = 1 << 13  # rows brought over at a time where they do not stay


class _Block(NamedTuple):
    """Consecutive rows from row ``first`` on, (n, D), and their lengths, (n,)."""

    first: int
    vectors: Tensor
    lengths: Tensor


class DeviceVectors:
    """Vectors on a device, as they are stored; brought over for each search where they do not fit there."""

    def __init__(self, vectors: Vectors, device: str) -> None:
        self.vectors, self.device = vectors, torch.device(device)
        size = len(vectors) * vectors.dimension * (4 if vectors.dtype in ("float32", "int8") else 2)
        self.stays = size <= _SHARE * self._free()
        self._kept = list(self._brought(_BLOCK)) if self.stays else []

    def search(self, queries: Encoded, k: int) -> list[Found]:
        """The ``k`` best rows for each query; raises as :func:`telerank.dense.search.search`."""
        self.vectors.require(queries)
        asked = np.ascontiguousarray(queries.vectors, np.float32)
        check_vectors(asked, "query")
        answers: list[Found] = []
        for begin in range(0, len(asked), _TOGETHER):
            answers += self._search(asked[begin : begin + _TOGETHER], k)
        return answers

    def _search(self, queries: Floats, k: int) -> list[Found]:
        asked = torch.from_numpy(queries).to(self.device)  # (Q, D)
        lengths = asked.norm(dim=1) * self._error()  # (Q,)
        best = torch.full((len(queries), 0), -torch.inf, device=self.device)
        found: list[list[np.ndarray]] = []  # of each block: queries, rows, greatest scores
        with torch.inference_mode():
            for block in self._kept or self._brought(_STREAMED):
                products = asked @ block.vectors.float().T  # (Q, n)
                margins = lengths[:, None] * block.lengths + 1e-36
                best = torch.cat((best, products - margins), dim=1)
                best = best.topk(min(k, best.shape[1]), dim=1).values
                # until k rows were seen, every row may be among the best
                least = best[:, -1] if best.shape[1] == k else torch.full_like(lengths, -torch.inf)
                highest = products + margins
                numbers, places = (highest >= least[:, None]).nonzero(as_tuple=True)
                there = (numbers, places + block.first, highest[numbers, places])
                found.append([one.cpu().numpy() for one in there])
        numbers, rows, spans = (np.concatenate(one) for one in zip(*found, strict=True))
        kept = spans >= least.cpu().numpy()[numbers]
        return [
            best_among(self.vectors, rows[kept & (numbers == number)], query, k)
            for number, query in enumerate(queries)
        ]

    def _error(self) -> float:
        exact = torch.get_float32_matmul_precision() == "highest"
        return (self.vectors.dimension + 8) * 2.0**-23 if exact else 2.0**-7

    def _brought(self, size: int) -> Iterator[_Block]:
        for shard in self.vectors.shards:
            lengths = torch.from_numpy((shard.bounds[:, 1] + shard.bounds[:, 2]) * np.float32(1.0001))
            for begin in range(0, len(shard), size):
                end = min(begin + size, len(shard))
                there = torch.from_numpy(self.vectors.widened(shard, slice(begin, end)))
                kept = there.to(self._kind()).to(self.device)
                yield _Block(shard.first + begin, kept, lengths[begin:end].to(self.device))

    def _kind(self) -> torch.dtype:
        """What holds the stored numbers exactly."""
        return {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(self.vectors.dtype, torch.float32)

    def _free(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0


@lru_cache(maxsize=4)
def on_device(vectors: Vectors, device: str) -> DeviceVectors:
    """The vectors on a device; the last few stay there."""
    return DeviceVectors(vectors, device)
