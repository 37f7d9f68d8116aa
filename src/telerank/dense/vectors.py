"""Vectors on disk for reading: memory-mapped, with codes for scanning.

====================  ===================================================================================
``vectors.NNNN.npy``  (rows, D) of float32 or float16, bfloat16's bits as uint16, or int8 codes
``codes.NNNN.npy``    (rows, D rounded up to a multiple of 4) int8: each row rotated, divided by its scale
``bounds.NNNN.npy``   (rows, 4) float32: scale, length of the rounding error, of the codes, sum of codes
``docnos.*``          see :mod:`telerank.corpus.docnos`; not if the vectors follow an index
``rows.NNNN.npy``     (rows, 2) int32, if they follow an index: a segment of the entry, and a row there
``texts.NNNN.npy``    (rows, 2) uint64, beside it: the digests of the texts (see :mod:`.segments`)
====================  ===================================================================================

int8 vectors are codes, not rotated, times their scale, and have no other file of codes. Codes are written
with the shard and recorded in the manifest with their checksums, so that they always belong to their vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import Docnos
from telerank.dense import kernel
from telerank.dense.kinds import KINDS, Floats, check_vectors, pad_width, widen
from telerank.dense.manifest import VectorManifest, VectorShardEntry
from telerank.dense.segments import (
    IndexDocuments,
    RowLocation,
    SegmentDocnos,
    locate_by_docno,
    locate_in_order,
)
from telerank.errors import IndexDamaged, IndexFault, ModelError
from telerank.stored import MANIFEST, FolderReader, check_files, map_npy, verify_files
from telerank.types import Progress, silent

_FEW = 16  # scoring a row takes as long as scanning some of its code's neighbours
_SMALL = 8192  # rows of a shard
_WIDENED = 4096  # rows converted to float32 at a time


class VectorShard(NamedTuple):
    """Consecutive rows from row ``first`` on."""

    first: int
    vectors: npt.NDArray[Any]
    codes: npt.NDArray[np.int8]
    bounds: Floats

    def __len__(self) -> int:
        return len(self.bounds)

    def mask(self, live: npt.NDArray[np.bool_]) -> VectorShard:
        """The shard whose other rows no search finds: no bound compares with a rounding error that is NaN."""
        if live.all():
            return self
        bounds = np.array(self.bounds)
        bounds[~live, 1] = np.nan
        return VectorShard(self.first, self.vectors, self.codes, bounds)


class Encoded(NamedTuple):
    """float32 vectors (Q, D), and the fingerprint of the model that made them."""

    vectors: Floats
    fingerprint: str


class Vectors(FolderReader):
    """The vectors of a folder as they were when it was opened.

    With the documents of an ``index`` only those of documents that it has are searched: their ``rows`` (n,),
    ascending, which are not all that are stored; ``lacking`` is the number of documents without a vector.

    Raises IndexFault if there are none or they are not finished, or they follow an index that is not given,
    IndexDamaged naming a damaged file.
    """

    def __init__(self, folder: str | Path, index: IndexDocuments | None = None) -> None:
        self.folder, self.index = Path(folder).resolve(), index
        self.manifest, parts = VectorManifest.open(self.folder, self._open_parts)
        self.shards, self.docnos, self._live = parts
        self._contents = self.manifest, "" if index is None else index.state
        self.dimension, self.dtype = self.manifest.dimension, self.manifest.dtype
        self._firsts = np.array([shard.first for shard in self.shards], np.int64)
        self.lacking = 0 if index is None else len(index) - len(self)
        if len(self.docnos) != len(self):
            raise IndexDamaged(f"{self.folder}: {self.manifest.rows} vectors but {len(self.docnos)} docnos")

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows (n,) that are searched, ascending."""
        return np.arange(self.manifest.rows, dtype=np.int64) if self._live is None else self._live

    @property
    def identity(self) -> dict[str, object]:
        """Folder, fingerprint of the model, the checksums of the files of each shard, and what is lacking."""
        crc32 = [{name: file.crc32 for name, file in entry.files.items()} for entry in self.manifest.shards]
        lacking = {"documents without a vector": self.lacking} if self.lacking else {}
        return {
            "folder": str(self.folder),
            "fingerprint": self.manifest.fingerprint,
            "crc32": crc32,
            **lacking,
        }

    def within(self, hidden: Sequence[npt.NDArray[np.bool_]]) -> Vectors:
        """The same without the documents that are ``hidden``: for each segment of the index, marks of rows.

        If few are left, they are scored one by one, and no bound is masked.

        Raises
        ------
        IndexFault
            If the vectors are not those of an index.
        """
        if self.index is None:
            raise IndexFault(f"{self.folder}: vectors without an index have no columns to filter by")
        location = locate_rows(self.folder, self.manifest, self.index)
        live = location.segments >= 0
        for number, marks in enumerate(hidden):
            inside = np.flatnonzero(location.segments == number)
            live[inside] = ~marks[location.rows[inside]]
        within = copy(self)
        within._live = np.flatnonzero(live)  # noqa: SLF001 — of its own kind
        if not within.are_few:
            parts = (shard.mask(live[shard.first : shard.first + len(shard)]) for shard in self.shards)
            within.shards = tuple(parts)
        return within

    @property
    def are_few(self) -> bool:
        """Whether so few of the rows are searched that each is scored."""
        return len(self) * _FEW < self.manifest.rows

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
        """Yield all stored vectors as float32 in blocks, each with its first row."""
        for shard in self.shards:
            for begin in range(0, len(shard), size):
                yield shard.first + begin, self.widen(shard, slice(begin, min(begin + size, len(shard))))

    def arrays(self) -> tuple[list[str], Floats]:
        """The docnos, and their vectors (N, D) as float32, in memory."""
        return self.docnos.take(self.rows), self.take(self.rows)

    def verify(self, progress: Progress = silent) -> None:
        """Read every file and compare its checksum; raises IndexDamaged naming a damaged file."""
        verify_files(self.folder, self.manifest.files, "verifying vectors", progress)

    def __len__(self) -> int:
        return self.manifest.rows if self._live is None else len(self._live)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder, self.index)

    def widen(self, shard: VectorShard, rows: npt.NDArray[np.int64] | slice) -> Floats:
        """Rows of a shard as float32."""
        if self.dtype == "int8":
            return shard.codes[rows, : self.dimension].astype(np.float32) * shard.bounds[rows, :1]
        return widen(shard.vectors[rows], self.dtype)

    def _open_parts(
        self, manifest: VectorManifest
    ) -> tuple[tuple[VectorShard, ...], Docnos | SegmentDocnos, npt.NDArray[np.int64] | None]:
        """The shards, the docnos, and the rows that are searched, None for all."""
        if not manifest.finished:
            raise IndexFault(f"{self.folder}: is not finished: encode again to resume")
        check_files(self.folder, manifest.files)
        shards = open_shards(self.folder, manifest)
        if not manifest.follows and (self.index is None or self.index.state == manifest.source):
            return shards, Docnos(self.folder), None
        if self.index is None:
            raise IndexFault(f"{self.folder}: these vectors follow an index: open the index")
        location = locate_rows(self.folder, manifest, self.index)
        live = location.find_live(self.index)
        rows = np.flatnonzero(live)
        masked = tuple(shard.mask(live[shard.first : shard.first + len(shard)]) for shard in shards)
        return tuple(_join_small(masked)), SegmentDocnos(self.index, location, rows), rows


def _join_small(shards: Iterable[VectorShard]) -> Iterator[VectorShard]:
    """The shards, of which small neighbours are one in memory: to begin a scan takes as long as some rows."""
    for is_small, group in groupby(shards, lambda shard: len(shard) <= _SMALL):
        joined = list(group)
        if not is_small or len(joined) == 1:
            yield from joined
            continue
        vectors, bounds = (np.concatenate([shard[part] for shard in joined]) for part in (1, 3))
        same = joined[0].codes is joined[0].vectors
        codes = vectors if same else np.concatenate([shard.codes for shard in joined])
        yield VectorShard(joined[0].first, vectors, codes, bounds)


def shard_files(number: int, dtype: str) -> tuple[str, ...]:
    """The names of a shard's files: vectors, codes, bounds."""
    kinds = ("vectors", "bounds") if dtype == "int8" else ("vectors", "codes", "bounds")
    return tuple(f"{kind}.{number:04d}.npy" for kind in kinds)


def locate_rows(folder: Path, manifest: VectorManifest, index: IndexDocuments) -> RowLocation:
    """The documents of an index that vectors belong to, deleted ones, too."""
    if not manifest.follows:
        if manifest.source == index.state:
            return locate_in_order(index)
        return locate_by_docno(Docnos(folder), index, manifest.source)
    numbers = {segment.name: number for number, segment in enumerate(index.segments)}
    owners, rows = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for entry in manifest.shards:
        stored = map_npy(folder / entry.file_names["rows"], np.int32, (entry.rows, 2))
        # the last number is that of no segment, which is also what -1 names
        by_entry = np.array([*(numbers.get(name, -1) for name in entry.segments), -1], np.int32)
        if ((stored[:, 0] < -1) | (stored[:, 0] >= len(entry.segments))).any():
            raise IndexDamaged(f"{folder / entry.file_names['rows']}: damaged (there is no such segment)")
        owners.append(by_entry[stored[:, 0]])
        rows.append(np.array(stored[:, 1]))
    location = RowLocation(np.concatenate(owners), np.concatenate(rows))
    sizes = np.array([*(len(segment.docs) for segment in index.segments), 2**31 - 1])
    if (location.rows < 0).any() or (location.rows >= sizes[location.segments]).any():
        raise IndexDamaged(f"{folder}: rows of vectors are not those of the segments")
    return location


def open_shards(folder: Path, manifest: VectorManifest) -> tuple[VectorShard, ...]:
    """The shards as they are stored."""
    if manifest.dtype not in KINDS:
        raise IndexDamaged(f"{folder / MANIFEST}: damaged (there is no type {manifest.dtype!r})")
    firsts = np.cumsum([0, *(entry.rows for entry in manifest.shards)]).tolist()
    return tuple(
        _open_shard(folder, manifest, entry, first)
        for entry, first in zip(manifest.shards, firsts, strict=False)
    )


def _open_shard(folder: Path, manifest: VectorManifest, entry: VectorShardEntry, first: int) -> VectorShard:
    width, names = pad_width(manifest.dimension), entry.file_names
    columns = width if manifest.dtype == "int8" else manifest.dimension
    vectors = map_npy(folder / names["vectors"], KINDS[manifest.dtype], (entry.rows, columns))
    codes = map_npy(folder / names["codes"], np.int8, (entry.rows, width)) if "codes" in names else vectors
    return VectorShard(first, vectors, codes, map_npy(folder / names["bounds"], np.float32, (entry.rows, 4)))
