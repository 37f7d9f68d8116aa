"""Vectors on disk for reading: memory-mapped, with codes for scanning.

====================  ===================================================================================
``vectors.NNNN.npy``  (rows, D) of float32 or float16, bfloat16's bits as uint16, or int8 codes
``codes.NNNN.npy``    (rows, D rounded up to a multiple of 4) int8: each row rotated, divided by its scale
``bounds.NNNN.npy``   (rows, 4) float32: scale, length of the rounding error, of the codes, sum of codes
``docnos.*``          see :mod:`telerank.corpus.docnos`
====================  ===================================================================================

int8 vectors are codes, not rotated, times their scale, and have no other file of codes. Codes are written
with the shard and recorded in the manifest with their checksums, so that they always belong to their vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import Docnos
from telerank.dense import kernel
from telerank.dense.kinds import KINDS, Floats, check_vectors, pad_width, widen
from telerank.dense.manifest import VectorManifest
from telerank.errors import IndexDamaged, IndexFault, ModelError
from telerank.stored import MANIFEST, FolderReader, check_files, map_npy, verify_files
from telerank.types import Progress, silent

_WIDENED = 4096  # rows converted to float32 at a time


class VectorShard(NamedTuple):
    """Consecutive rows from row ``first`` on."""

    first: int
    vectors: npt.NDArray[Any]
    codes: npt.NDArray[np.int8]
    bounds: Floats

    def __len__(self) -> int:
        return len(self.bounds)


class Encoded(NamedTuple):
    """float32 vectors (Q, D), and the fingerprint of the model that made them."""

    vectors: Floats
    fingerprint: str


class Vectors(FolderReader):
    """The vectors of a folder as they were when it was opened.

    Raises IndexFault if there are none or they are not finished, IndexDamaged naming a damaged file.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        self.manifest, parts = VectorManifest.open(self.folder, partial(_open_parts, self.folder))
        self.shards, self.docnos = parts
        self._contents = self.manifest
        self.dimension, self.dtype = self.manifest.dimension, self.manifest.dtype
        self._firsts = np.array([shard.first for shard in self.shards], np.int64)
        if len(self.docnos) != self.manifest.rows:
            raise IndexDamaged(f"{self.folder}: {self.manifest.rows} vectors but {len(self.docnos)} docnos")

    @property
    def identity(self) -> dict[str, object]:
        """Folder, fingerprint of the model, and the checksums of the files of each shard."""
        crc32 = [{name: file.crc32 for name, file in entry.files.items()} for entry in self.manifest.shards]
        return {"folder": str(self.folder), "fingerprint": self.manifest.fingerprint, "crc32": crc32}

    def require(self, encoded: Encoded) -> Floats:
        """The queries' vectors (Q, D), contiguous.

        Raises ModelError if they are of another model or dimension, DocumentError if one is too long.
        """
        mine, other = self.manifest.fingerprint, encoded.fingerprint
        if mine != other:
            raise ModelError(
                f"{self.folder}: these vectors were made by {self.manifest.model} ({mine[:12]}), "
                f"the query's by another model ({other[:12]})"
            )
        if encoded.vectors.ndim != 2 or encoded.vectors.shape[1] != self.dimension:
            raise ModelError(
                f"{self.folder}: vectors of {self.dimension} dimensions, "
                f"queries of shape {encoded.vectors.shape}"
            )
        vectors = np.ascontiguousarray(encoded.vectors, np.float32)
        check_vectors(vectors, "query")
        return vectors

    def score_rows(self, rows: npt.NDArray[np.int64], query: Floats) -> Floats:
        """The scores (n,) of ascending rows (n,): inner products in float64, rounded once to float32."""
        scores = np.empty(len(rows), np.float32)
        wide = query.astype(np.float64)
        cuts = np.searchsorted(rows, self._firsts)
        for shard, begin, end in zip(self.shards, cuts, [*cuts[1:], len(rows)], strict=True):
            if begin == end:
                continue
            where, out = rows[begin:end] - shard.first, scores[begin:end]
            if self.dtype in ("float16", "bfloat16"):
                bits = shard.vectors.view(np.uint16)
                kernel.exact_half(bits, where, wide, out, self.dtype == "float16")
            else:
                kernel.exact(shard.vectors, shard.bounds, where, wide, out, self.dtype == "int8")
        return scores

    def take(self, rows: npt.NDArray[np.int64]) -> Floats:
        """The vectors (n, D) of rows (n,) in any order, as float32."""
        vectors = np.empty((len(rows), self.dimension), np.float32)
        numbers = np.searchsorted(self._firsts, rows, side="right") - 1
        for number in np.unique(numbers):
            inside = numbers == number
            vectors[inside] = self.widen(self.shards[number], rows[inside] - self.shards[number].first)
        return vectors

    def read_blocks(self, size: int = _WIDENED) -> Iterator[tuple[int, Floats]]:
        """Yield all vectors as float32 in blocks, each with its first row."""
        for shard in self.shards:
            for begin in range(0, len(shard), size):
                yield shard.first + begin, self.widen(shard, slice(begin, min(begin + size, len(shard))))

    def arrays(self) -> tuple[list[str], Floats]:
        """The docnos, and their vectors (N, D) as float32, in memory."""
        blocks = [block for _, block in self.read_blocks()]
        return self.docnos.take(np.arange(len(self))), np.concatenate(blocks)

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; raises IndexDamaged naming a damaged file."""
        verify_files(self.folder, self.manifest.files, "verifying vectors", progress)

    def __len__(self) -> int:
        return self.manifest.rows

    def widen(self, shard: VectorShard, rows: npt.NDArray[np.int64] | slice) -> Floats:
        """Rows of a shard as float32."""
        if self.dtype == "int8":
            return shard.codes[rows, : self.dimension].astype(np.float32) * shard.bounds[rows, :1]
        return widen(shard.vectors[rows], self.dtype)


def shard_files(number: int, dtype: str) -> tuple[str, ...]:
    """The names of a shard's files: vectors, codes, bounds."""
    kinds = ("vectors", "bounds") if dtype == "int8" else ("vectors", "codes", "bounds")
    return tuple(f"{kind}.{number:04d}.npy" for kind in kinds)


def _open_parts(folder: Path, manifest: VectorManifest) -> tuple[tuple[VectorShard, ...], Docnos]:
    if not manifest.finished:
        raise IndexFault(f"{folder}: is not finished: encode again to resume")
    check_files(folder, manifest.files)
    return tuple(_open_shards(folder, manifest)), Docnos(folder)


def _open_shards(folder: Path, manifest: VectorManifest) -> Iterator[VectorShard]:
    if manifest.dtype not in KINDS:
        raise IndexDamaged(f"{folder / MANIFEST}: damaged (there is no type {manifest.dtype!r})")
    first = 0
    width = pad_width(manifest.dimension)
    for number, entry in enumerate(manifest.shards):
        names = shard_files(number, manifest.dtype)
        columns = width if manifest.dtype == "int8" else manifest.dimension
        vectors = map_npy(folder / names[0], KINDS[manifest.dtype], (entry.rows, columns))
        codes = vectors if len(names) == 2 else map_npy(folder / names[1], np.int8, (entry.rows, width))
        yield VectorShard(first, vectors, codes, map_npy(folder / names[-1], np.float32, (entry.rows, 4)))
        first += entry.rows
