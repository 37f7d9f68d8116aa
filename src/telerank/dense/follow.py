"""Vectors that follow an index: each document that has none gets that of an equal text, or a new one.

Shards are added beside those that are there, and replacing ``manifest.json`` commits each of them: whatever
moment a process is killed at, the vectors that were committed are searched. Before a change of the index is
committed, the texts that it moves (a merge, a file of another name, an unchanged passage) get vectors in
their new rows; after it, those that are new are encoded, and shards without a document are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from telerank.corpus.read_fields import FieldNames, read_fields
from telerank.dense.encode import (
    encode_shards,
    make_arrays,
    open_unfinished,
    sweep_vectors,
    write_shard,
    writer_lock,
)
from telerank.dense.encoder import Encoder
from telerank.dense.kinds import Floats, check_vectors
from telerank.dense.manifest import VectorManifest, VectorShardEntry
from telerank.dense.retriever import renew_reports
from telerank.dense.segments import IndexDocuments, KnownTexts, Rows, SegmentDocnos, compute_digests
from telerank.dense.unfinished import UnfinishedShard, is_unfinished
from telerank.dense.vectors import Vectors, locate_rows, open_shards, shard_files
from telerank.drafts import remove, sweep
from telerank.errors import DocumentError, ModelError
from telerank.stored import MANIFEST, becoming_writer, map_npy
from telerank.types import Doc, Progress, silent


class _Lacking(NamedTuple):
    """Documents without a vector: the numbers of their segments and their rows there, (n,) each."""

    segments: Rows
    rows: Rows

    def select(self, chosen: slice | np.ndarray) -> _Lacking:
        return _Lacking(self.segments[chosen], self.rows[chosen])

    def read(self, index: IndexDocuments, fields: FieldNames) -> list[Doc]:
        pairs = zip(self.segments.tolist(), self.rows.tolist(), strict=True)
        return [read_fields(index.segments[number].docs.get_row(row), fields) for number, row in pairs]


class FollowingVectors(AbstractContextManager["FollowingVectors"]):
    """The only writer of vectors in the folder of an index, which changes them where they are.

    ``index`` are the documents that the vectors were made of, or some of them. Raises IndexLocked if another
    process writes to them.
    """

    def __init__(self, folder: Path, index: IndexDocuments) -> None:
        self.folder = folder.resolve()
        sweep_vectors(self.folder)
        self._lock = writer_lock(self.folder)
        with becoming_writer(self.folder, "another process encodes into it", self._release):
            self._lock.acquire()
            self.manifest = VectorManifest.read(self.folder)
            self._sweep()
            if not self.manifest.follows:
                self._adopt(index)

    def copy(self, index: IndexDocuments) -> None:
        """Give the documents of an index that have no vector those of equal texts, without encoding."""
        lacking = _find_lacking(Vectors(self.folder, index), index)
        if not len(lacking.rows):
            return
        shards = self.manifest.shards
        known = KnownTexts([self._read(entry, "texts", np.uint64) for entry in shards])
        size = self._shard_size
        for begin in range(0, len(lacking.rows), size):
            part = lacking.select(slice(begin, begin + size))
            rows = known.find(compute_digests(part.read(index, self.manifest.fields)))
            if (rows >= 0).any():
                self._copy(index, part.select(rows >= 0), rows[rows >= 0])

    def encode(self, index: IndexDocuments, encoder: Encoder, progress: Progress = silent) -> int:
        """Encode the documents of an index that have no vector; their number.

        Raises ModelError if the encoder is not the one that made the vectors.
        """
        if encoder.fingerprint != self.manifest.fingerprint:
            raise ModelError(
                f"{self.folder}: these vectors were made by {self.manifest.model} "
                f"({self.manifest.fingerprint[:12]}), not by {encoder.name} ({encoder.fingerprint[:12]})"
            )
        lacking = _find_lacking(Vectors(self.folder, index), index)
        if not len(lacking.rows):
            return 0
        writer = _LackingWriter(self, index, lacking, self.next_number)
        size, tokens = self._shard_size, self.manifest.settings.get("batch_tokens", encoder.batch_tokens)
        slices = (slice(begin, begin + size) for begin in range(0, len(lacking.rows), size))
        parts = (lacking.select(part).read(index, self.manifest.fields) for part in slices)
        return encode_shards(parts, encoder, writer, tokens, progress=progress)

    def drop(self, index: IndexDocuments) -> None:
        """Remove the shards that no segment of an index has a row of, and what unfinished ones have left."""
        names = {segment.name for segment in index.segments}
        kept = tuple(entry for entry in self.manifest.shards if names.intersection(entry.segments))
        if kept and len(kept) < len(self.manifest.shards):
            self._commit(replace(self.manifest, shards=kept))
        self._sweep()
        sweep(filter(is_unfinished, self.folder.iterdir()))

    def close(self) -> None:
        self._release()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def next_number(self) -> int:
        """The number of the next shard in the names of its files."""
        return 1 + max((entry.number for entry in self.manifest.shards), default=-1)

    def write(
        self,
        index: IndexDocuments,
        lacking: _Lacking,
        docs: Sequence[Doc],
        arrays: Sequence[np.ndarray],
        *,
        cut: int = 0,
    ) -> None:
        """Add a shard of the vectors of documents, and commit it."""
        number = self.next_number
        files = dict(zip(shard_files(number, self.manifest.dtype), arrays, strict=True))
        present = np.unique(lacking.segments)
        own = np.stack([np.searchsorted(present, lacking.segments), lacking.rows], axis=1).astype(np.int32)
        files |= {f"rows.{number:04d}.npy": own, f"texts.{number:04d}.npy": compute_digests(docs)}
        names = tuple(index.segments[segment].name for segment in present)
        entry = write_shard(self.folder, files, docs, names)
        shards = (*self.manifest.shards, entry)
        self._commit(replace(self.manifest, shards=shards, cut=self.manifest.cut + cut))

    def _copy(self, index: IndexDocuments, lacking: _Lacking, rows: Rows) -> None:
        """Add a shard of the vectors of rows, which are those of the documents."""
        shards = open_shards(self.folder, self.manifest)
        numbers = np.searchsorted([shard.first for shard in shards], rows, side="right") - 1
        copies: list[np.ndarray] = []
        for number in np.unique(numbers):
            shard, inside = shards[number], numbers == number
            files = (shard.codes, shard.bounds) if self.manifest.dtype == "int8" else shard[1:]
            copies = copies or [np.empty((len(rows), array.shape[1]), array.dtype) for array in files]
            for copied, array in zip(copies, files, strict=True):
                copied[inside] = array[rows[inside] - shard.first]
        self.write(index, lacking, lacking.read(index, self.manifest.fields), copies)

    def _adopt(self, index: IndexDocuments) -> None:
        """Let vectors that know their documents by docno know them by segment, and have their digests."""
        location, entries, first = locate_rows(self.folder, self.manifest, index), [], 0
        names = tuple(segment.name for segment in index.segments)
        for entry in self.manifest.shards:
            rows = slice(first, first + entry.rows)
            own = np.stack([location.segments[rows], location.rows[rows]], axis=1)
            known = own[:, 0] >= 0
            docs = _Lacking(own[known, 0], own[known, 1]).read(index, self.manifest.fields)
            digests = np.zeros((entry.rows, 2), np.uint64)
            digests[known] = compute_digests(docs)
            number = next(iter(entry.files)).split(".")[1]
            added = write_shard(
                self.folder, {f"rows.{number}.npy": own, f"texts.{number}.npy": digests}, docs
            )
            files = {**entry.files, **added.files}
            entries.append(replace(entry, files=files, segments=names))
            first += entry.rows
        renew_reports(self.folder, self.manifest)
        self._commit(replace(self.manifest, shards=tuple(entries), docnos={}, source=""))

    def _read(self, entry: VectorShardEntry, kind: str, dtype: type) -> np.ndarray:
        return map_npy(self.folder / entry.file_names[kind], dtype, (entry.rows, 2))

    @property
    def _shard_size(self) -> int:
        return int(self.manifest.settings.get("shard", 16_384))

    def _commit(self, manifest: VectorManifest) -> None:
        manifest.write(self.folder)
        self.manifest = manifest

    def _sweep(self) -> None:
        """Remove files that the manifest does not name: replaced ones, those of a killed writer."""
        kept = {MANIFEST, *self.manifest.files}
        others = (path for path in self.folder.iterdir() if not is_unfinished(path))
        sweep((path for path in others if not path.name.startswith("approximate.")), kept)

    def _release(self) -> None:
        if self._lock.is_locked:
            remove(Path(self._lock.lock_file))
            self._lock.release()


@dataclass
class _LackingWriter:
    """Writes the shards of lacking documents, in their order."""

    vectors: FollowingVectors
    index: IndexDocuments
    lacking: _Lacking
    first: int
    written: int = 0

    def add(self, docs: Sequence[Doc], vectors: Floats, *, cut: int = 0) -> None:
        begin, dtype = self.written, self.vectors.manifest.dtype
        check_vectors(vectors, f"shard {self.vectors.next_number}: document")
        if vectors.shape != (len(docs), self.vectors.manifest.dimension):
            raise DocumentError(f"expected {len(docs)} vectors, got an array of shape {vectors.shape}")
        part = self.lacking.select(slice(begin, begin + len(docs)))
        self.vectors.write(self.index, part, docs, make_arrays(vectors, dtype), cut=cut)
        self.written += len(docs)

    def open_unfinished(self, ahead: int, docs: Sequence[Doc], encoder: Encoder) -> UnfinishedShard:
        folder, manifest = self.vectors.folder, self.vectors.manifest
        return open_unfinished(folder, self.first + ahead, docs, encoder, manifest)


def _find_lacking(vectors: Vectors, index: IndexDocuments) -> _Lacking:
    """The documents of an index without a vector, in their order."""
    segments, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if vectors.lacking and isinstance(vectors.docnos, SegmentDocnos):
        pairs = zip(index.segments, vectors.docnos.by_segment, strict=True)
        for number, (segment, own) in enumerate(pairs):
            rows.append(np.flatnonzero(segment.kept & (own < 0)))
            segments.append(np.full(len(rows[-1]), number, np.int64))
    return _Lacking(np.concatenate(segments), np.concatenate(rows))
