"""The contents of a feature store: which pairs it has, and the vectors of a batch of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding

from telerank.models.pairs.features import PairFeatures
from telerank.training.features.shards import PAIR, FeatureManifest, Halves, open_shard

Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FeatureContents:
    """``vectors`` has the vectors of each shard, ``firsts`` the number of each shard's first vector.

    For each pair, ``begins`` is the number of its first vector, ``queries`` and ``sentences`` are the numbers
    of query and sentence vectors that follow, and ``scales`` is the factor of all. ``hashes`` are sorted,
    ``order`` has their rows.
    """

    width: int
    vectors: Sequence[Halves]
    firsts: Rows
    begins: Rows
    queries: Rows
    sentences: Rows
    scales: npt.NDArray[np.float32]
    hashes: npt.NDArray[np.void]
    order: Rows

    @classmethod
    def read(cls, folder: Path, manifest: FeatureManifest) -> FeatureContents:
        """Open the shards of a store. Raises IndexDamaged if a file is missing or differs."""
        opened = [open_shard(folder, manifest, number) for number in range(len(manifest.shards))]
        pairs = np.concatenate([np.empty(0, PAIR), *(shard.pairs for shard in opened)])
        queries, sentences = (pairs[name].astype(np.int64) for name in ("query", "sentences"))
        counts = 1 + queries + sentences
        sizes = np.array([0, *(len(shard.vectors) for shard in opened)], np.int64)
        hashes = np.ascontiguousarray(pairs["key"])
        order = np.argsort(hashes)
        return cls(
            manifest.width,
            [shard.vectors for shard in opened],
            np.cumsum(sizes)[:-1],
            np.cumsum(counts) - counts,
            queries,
            sentences,
            np.ascontiguousarray(pairs["scale"]),
            hashes[order],
            order,
        )

    def __len__(self) -> int:
        return len(self.begins)

    def find(self, hashes: npt.NDArray[np.void]) -> Rows:
        """The row of each hash, or -1."""
        if not len(self):
            return np.full(len(hashes), -1, np.int64)
        nearest = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        return np.where(self.hashes[nearest] == hashes, self.order[nearest], -1)

    def batch(self, rows: Rows) -> PairFeatures:
        """The features of rows, padded, in float32. Raises IndexError if there is no such row."""
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows 0 to {len(self) - 1}, got {rows.min()} to {rows.max()}")
        flat, begins = self._flat(rows)  # (V + 1, H), (B,)
        queries, sentences = self.queries[rows], self.sentences[rows]
        query, query_mask = _pad_ranges(begins + 1, queries, len(flat) - 1)  # (B, N)
        sentence, sentence_mask = _pad_ranges(begins + 1 + queries, sentences, len(flat) - 1)  # (B, S)
        cls = embedding(torch.from_numpy(begins), flat)
        return PairFeatures(cls, embedding(query, flat), query_mask, embedding(sentence, flat), sentence_mask)

    def _flat(self, rows: Rows) -> tuple[Tensor, Rows]:
        """All vectors of the rows in file order, then a zero vector; and the begin of each row, (B,)."""
        begins, counts = self.begins[rows], 1 + self.queries[rows] + self.sentences[rows]
        order = np.argsort(begins)
        ends = np.cumsum(counts[order])
        starts = np.empty_like(begins)
        starts[order] = ends - counts[order]
        total = int(ends[-1]) if len(ends) else 0
        numbers = np.repeat((begins - starts)[order], counts[order]) + np.arange(total)  # (V,)
        halves = np.empty((total + 1, self.width), np.float16)
        halves[total] = 0
        cuts = np.append(np.searchsorted(numbers, self.firsts), total)
        for shard in np.flatnonzero(np.diff(cuts)).tolist():
            part = slice(cuts[shard], cuts[shard + 1])
            # mode: without it numpy copies twice
            np.take(self.vectors[shard], numbers[part] - self.firsts[shard], 0, halves[part], mode="clip")
        flat = torch.from_numpy(halves).float()
        if (self.scales[rows] != 1).any():
            flat[:total] *= torch.from_numpy(np.repeat(self.scales[rows][order], counts[order])).unsqueeze(1)
        return flat, starts


def _pad_ranges(begins: Rows, counts: Rows, padding: int) -> tuple[Tensor, Tensor]:
    """``counts`` consecutive numbers from each of ``begins``, padded, (B, N), and their mask, (B, N)."""
    along = np.arange(counts.max(initial=1))
    mask = along < counts[:, None]
    numbers = np.where(mask, begins[:, None] + along, padding)
    return torch.from_numpy(numbers), torch.from_numpy(mask)
