"""Exact search with torch, for a GPU: its products select the rows that can be among the best.

These are then scored from the vectors, so that the result equals that of
:func:`telerank.dense.search.search` to the bit.

The error of a float32 inner product, summed in any order, is at most D 2^-23 |q| |x|; if torch may multiply
with fewer digits (TF32, bfloat16), it is at most 2^-7 |q| |x|.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from telerank.dense.kinds import Floats
from telerank.dense.search import TOGETHER, WHOLE, Hits, rank_exhaustively, rank_rows
from telerank.dense.vectors import Encoded, Vectors
from telerank.errors import ModelError
from telerank.models.inference import pin
from telerank.models.precision import multiplies_exactly

T = TypeVar("T")

_BLOCK = 1 << 16  # rows that are kept, or copied, together
_PRODUCTS = 1 << 24  # inner products that are computed at a time
_LEAST = 64  # rows: if the products with so few do not fit, those with fewer do not either
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


@dataclass
class _Kept:
    """The blocks that are on a device, and what did not fit there; it does not refer to the vectors.

    ``rows`` are multiplied together, None until more did not fit; ``refused`` says if all blocks did not.
    """

    blocks: list[_Block] = field(default_factory=list)
    rows: int | None = None
    refused: bool = False

    def stream(self) -> None:
        """Keep no block on the device from now on."""
        self.blocks, self.rows, self.refused = [], None, True

    def describe(self) -> str:
        """What did not fit into memory, and what is done instead; empty if nothing was refused."""
        lines = ["vectors are copied for each search"] if self.refused else []
        lines += [] if self.rows is None else [f"{self.rows:,} rows at a time from then on"]
        return f"out of memory: {', '.join(lines)}" if lines else ""


class DeviceVectors:
    """Vectors on a device in their stored type; copied for each search if they do not fit there.

    ``kept`` has those that are on the device already; None copies them, if they fit into its free ``memory``,
    in bytes; None asks the device.
    """

    def __init__(
        self, vectors: Vectors, device: str, kept: _Kept | None = None, *, memory: int | None = None
    ) -> None:
        self.vectors, self.device = vectors, torch.device(device)
        self.kept = _Kept() if kept is None else kept
        size = len(vectors) * vectors.dimension * (4 if vectors.dtype in ("float32", "int8") else 2)
        if kept is None and memory is None:
            memory = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0
        if kept is None and size <= _SHARE * (memory or 0):
            try:
                self.kept.blocks = list(self._copy())
            except torch.OutOfMemoryError:  # another program has taken it
                self.kept.stream()
        if self.kept.refused:
            torch.cuda.empty_cache()  # outside of the handler, whose error keeps the blocks

    @property
    def is_resident(self) -> bool:
        return bool(self.kept.blocks)

    def search(self, queries: Encoded, k: int) -> list[Hits]:
        """The ``k`` best rows for each query, as :func:`telerank.dense.search.search` gives them.

        If there is too little memory, fewer rows are multiplied together, and then none stay on the device.
        Raises ModelError if that does not suffice.
        """
        targets = self.vectors.require(queries)
        if k * WHOLE >= len(self.vectors):
            return [rank_exhaustively(self.vectors, query, k) for query in targets]
        answers: list[Hits] = []
        for begin in range(0, len(targets), TOGETHER):
            answers += self._search(targets[begin : begin + TOGETHER], k)
        return answers

    def _search(self, queries: Floats, k: int) -> list[Hits]:
        best_rows = None
        while best_rows is None:
            step = min(self.kept.rows or _BLOCK, max(1, _PRODUCTS // len(queries)))
            try:
                best_rows = self._select(queries, k, step)
            except torch.OutOfMemoryError as error:
                if step <= _LEAST and not self.kept.blocks:
                    raise ModelError(
                        f"searching {step:,} rows for {len(queries):,} queries does not fit into memory: "
                        f"search on the processor (CUDA_VISIBLE_DEVICES=): {str(error).splitlines()[0]}"
                    ) from error
            if best_rows is None:
                # with half of the rows from now on, or, if they are few, none are kept on the device
                if step > _LEAST:
                    self.kept.rows = step // 2
                else:
                    self.kept.stream()
                torch.cuda.empty_cache()
        order = np.argsort(best_rows[0], kind="stable")
        ends = np.searchsorted(best_rows[0][order], np.arange(1, len(queries)))
        parts = zip(np.split(best_rows[1][order], ends), queries, strict=True)
        return [rank_rows(self.vectors, part, query, k) for part, query in parts]

    def _select(self, queries: Floats, k: int, step: int) -> npt.NDArray[np.int64]:
        """The numbers of queries (Q, D), and rows that may be among their best: (2, n), in blocks of rows.

        ``step`` rows are multiplied together.
        """
        targets = torch.from_numpy(queries).to(self.device)  # (Q, D)
        exact = multiplies_exactly(self.device)
        error = (self.vectors.dimension + 8) * 2.0**-23 if exact else 2.0**-7
        lengths = targets.norm(dim=1) * error  # (Q,)
        best = torch.full((len(queries), 0), -torch.inf, device=self.device)
        candidates: list[tuple[Tensor, Tensor, Tensor]] = []  # of each block: queries, rows, greatest scores
        with torch.inference_mode():
            for block in (part for whole in self.kept.blocks or self._copy() for part in whole.divide(step)):
                products = targets @ block.vectors.float().T  # (Q, n)
                margins = lengths[:, None] * block.lengths + 1e-36
                # the margins of rows that are not searched are NaN: they compare with nothing
                lowest = (products - margins).nan_to_num(nan=-torch.inf)
                best = torch.cat((best, lowest), dim=1)
                best = best.topk(min(k, best.shape[1]), dim=1).values
                # every row may be among the best until k rows were scored
                least = best[:, -1] if best.shape[1] == k else torch.full_like(lengths, -torch.inf)
                highest = products + margins
                numbers, columns = (highest >= least[:, None]).nonzero(as_tuple=True)
                candidates.append((numbers, columns + block.first, highest[numbers, columns]))
            numbers, rows, spans = (torch.cat(tensors) for tensors in zip(*candidates, strict=True))
            selected: npt.NDArray[np.int64] = (
                torch.stack((numbers, rows))[:, spans >= least[numbers]].cpu().numpy()
            )
        return selected

    def _copy(self) -> Iterator[_Block]:
        """All blocks on the device; while one is searched the next is read."""
        return (block.to(self.device) for block in _ahead(self._read()))

    def _read(self) -> Iterator[_Block]:
        size, half = min(_BLOCK, self.kept.rows or _BLOCK), _HALVES.get(self.vectors.dtype)
        for shard in self.vectors.shards:
            lengths = torch.from_numpy((shard.bounds[:, 1] + shard.bounds[:, 2]) * np.float32(1.0001))
            for begin in range(0, len(shard), size):
                rows = slice(begin, min(begin + size, len(shard)))
                # in a type that holds the stored numbers exactly: halves as they are stored
                if half is None:
                    vectors = torch.from_numpy(self.vectors.widen(shard, rows))
                else:
                    vectors = torch.from_numpy(np.array(shard.vectors[rows]).view(np.int16)).view(half)
                pinned = pin(vectors, self.device), pin(lengths[rows], self.device)
                yield _Block(shard.first + begin, *pinned)


def load_on_device(vectors: Vectors, device: str, *, memory: int | None = None) -> DeviceVectors:
    """Load vectors onto a device, if they fit; they stay there as long as these vectors are in use.

    ``memory`` is as for :class:`DeviceVectors`.
    """
    loaded = _LOADED.setdefault(vectors, {})
    on_device = DeviceVectors(vectors, device, loaded.get(device), memory=memory)
    loaded[device] = on_device.kept
    return on_device


def describe_memory(vectors: Vectors, device: str) -> str:
    """What of :func:`load_on_device` did not fit into memory so far; else empty."""
    kept = _LOADED.get(vectors, {}).get(device)
    return "" if kept is None else kept.describe()


# What is kept by device.
_LOADED: WeakKeyDictionary[Vectors, dict[str, _Kept]] = WeakKeyDictionary()


def _ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, each of which is read while the one before is used."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, "reading") as pool:
        waiting = pool.submit(next, iterator, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, iterator, None)
            yield item
