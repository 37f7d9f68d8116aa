"""The shards of a feature store on disk; a manifest names those that are complete.

======================  ==============================================================================
``manifest.json``       the encoder's fingerprint, and the shards with their checksums
``vectors.NNNN.npy``    (V, H) float16: for each pair its first token, its query's tokens, its sentences
``pairs.NNNN.npy``      for each pair, in the same order, a :data:`PAIR`
======================  ==============================================================================

A shard exists once a manifest names it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding

from telerank.drafts import sync_folder
from telerank.errors import IndexDamaged, ModelError
from telerank.models.pairs.pair import PairFeatures
from telerank.stored import MANIFEST, Manifest, StoredFile, map_npy

PAIR = np.dtype([("key", "V16"), ("query", "<u4"), ("sentences", "<u4"), ("scale", "<f4")])
"""A pair: the hash of its texts, and its numbers of query and sentence vectors. All vectors must be
multiplied by ``scale``, a power of two, which is 1 unless a number is too large for float16."""

Halves = npt.NDArray[np.float16]


@dataclass(frozen=True)
class FeatureShardEntry:
    """``vectors`` vectors of ``pairs`` pairs."""

    pairs: int
    vectors: int
    files: Mapping[str, StoredFile]


@dataclass(frozen=True)
class FeatureManifest(Manifest):
    """The state of a store; ``fingerprint`` identifies everything that decides a feature.

    With ``cls_only`` the store has only the first token's output of each pair.
    """

    fingerprint: str
    width: int
    cls_only: bool = False
    shards: tuple[FeatureShardEntry, ...] = ()
    kind: str = "features"
    format: int = 1

    @property
    def files(self) -> dict[str, StoredFile]:
        """The files of all shards."""
        return {name: file for shard in self.shards for name, file in shard.files.items()}

    def require(self, fingerprint: str, width: int, folder: Path) -> None:
        """Refuse features of another encoder. Raises ModelError if fingerprint or width differ."""
        if self.fingerprint != fingerprint:
            other = f"these features were made by another encoder ({self.fingerprint[:12]})"
            raise ModelError(f"{folder}: {other}, not by this one ({fingerprint[:12]})")
        if self.width != width:
            raise ModelError(f"{folder}: features are {self.width} wide, the encoder's {width}")


@dataclass(frozen=True, eq=False)
class FeatureShard:
    """``vectors`` are mapped from the disk, ``pairs`` are in memory."""

    vectors: Halves
    pairs: npt.NDArray[Any]


def shard_files(number: int) -> tuple[str, str]:
    return f"vectors.{number:04d}.npy", f"pairs.{number:04d}.npy"


def shard_bytes(pairs: int, vectors: int, width: int) -> int:
    """The size of the files of a shard."""
    return _npy_bytes(np.dtype(np.float16), (vectors, width)) + _npy_bytes(PAIR, (pairs,))


def write_shard(folder: Path, number: int, shard: FeatureShard) -> FeatureShardEntry:
    """Write the files of a shard, which no manifest names."""
    files = {}
    for name, array in zip(shard_files(number), (shard.vectors, shard.pairs), strict=True):
        with (folder / name).open("wb") as file:
            np.save(file, array)
        files[name] = StoredFile.record(folder / name)
    sync_folder(folder)
    return FeatureShardEntry(len(shard.pairs), len(shard.vectors), files)


def open_shard(folder: Path, manifest: FeatureManifest, number: int) -> FeatureShard:
    """A shard; its vectors are mapped.

    Raises IndexDamaged if a file is missing or differs; of vectors only the size is checked.
    """
    entry = manifest.shards[number]
    vectors, pairs = shard_files(number)
    if set(entry.files) != {vectors, pairs}:
        raise IndexDamaged(
            f"{folder / MANIFEST}: damaged (shard {number} has the files {sorted(entry.files)})"
        )
    entry.files[vectors].check(folder / vectors)
    entry.files[pairs].check(folder / pairs, whole=True)
    mapped = map_npy(folder / vectors, np.float16, (entry.vectors, manifest.width))
    table = map_npy(folder / pairs, PAIR, (entry.pairs,), mapped=False)
    if int(table["query"].sum()) + int(table["sentences"].sum()) + len(table) != len(mapped):
        raise IndexDamaged(f"{folder / pairs}: damaged (its pairs do not have {len(mapped):,} vectors)")
    return FeatureShard(mapped, table)


def _npy_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """The size of an array's file."""
    file = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell() + dtype.itemsize * math.prod(shape)


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
