"""Writing vectors: shard after shard beside their final name, which the folder gets when all are there.

``OUT.part`` grows by whole shards; whatever kills a writer, the next one goes on after the last of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import filelock
import numpy as np

from telerank.corpus.docnos import FILES, DocnosWriter
from telerank.dense import kernel
from telerank.dense.kinds import Floats, check_kind, check_vectors, narrowed, widened
from telerank.dense.manifest import VectorManifest, VectorShardEntry, is_vectors
from telerank.dense.rotate import padded, rotated
from telerank.dense.vectors import Vectors, shard_files
from telerank.errors import DocumentError, IndexFault, IndexLocked
from telerank.stored import MANIFEST, StoredFile, remove, replace_folder, sweep, sync_folder, verify_files


class VectorWriter:
    """The one writer of a folder of vectors; a context manager that names the folder where all went well.

    ``manifest`` says what makes the vectors. Where an unfinished folder that says the same is there, its
    shards are :attr:`kept`: their documents are to be given again, to :meth:`skip`.

    Raises
    ------
    IndexFault
        where the folder is there (and not to be overwritten), or what is unfinished was made otherwise.
    IndexLocked
        where another writer is at work.
    """

    def __init__(self, folder: str | Path, manifest: VectorManifest, *, overwrite: bool = False) -> None:
        check_kind(manifest.dtype)
        self.folder = Path(folder).resolve()
        self._part = self.folder.with_name(f"{self.folder.name}.part")
        _refuse(self.folder, overwrite=overwrite)
        self._lock = filelock.FileLock(f"{self._part}.lock", timeout=0, thread_local=False)
        try:
            self._part.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self.manifest = self._begun(manifest, overwrite=overwrite)
            self._sweep()
            self._docnos = DocnosWriter(self._part)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, filelock.Timeout):
                raise IndexLocked(f"{self.folder}: another process encodes into it") from None
            if isinstance(error, OSError):
                raise IndexFault(f"{self.folder}: cannot be written to: {error}") from error
            raise
        self._kept = self.manifest.shards
        self._number = 0  # of the next shard

    @property
    def kept(self) -> tuple[VectorShardEntry, ...]:
        """The shards that are still to be skipped: they are there already."""
        return self._kept[self._number :]

    def skip(self, docnos: Sequence[str], texts: Iterable[str]) -> None:
        """Go past a shard that is there.

        Raises
        ------
        IndexFault
            where it was made from other documents.
        """
        entry = self._kept[self._number]
        if len(docnos) != entry.rows or checksum(docnos, texts) != entry.texts:
            raise IndexFault(
                f"{self._part}: its shard {self._number} was made from other documents; "
                "begin anew (--overwrite)"
            )
        self._add(docnos)

    def add(self, docnos: Sequence[str], texts: Iterable[str], vectors: Floats, *, cut: int = 0) -> None:
        """Write a shard: float32 vectors (rows, D), and how many of their documents were cut.

        Raises
        ------
        DocumentError
            where a vector's score would not be finite, or a docno is none.
        """
        if vectors.shape != (len(docnos), self.manifest.dimension):
            expected = f"{len(docnos)} vectors of {self.manifest.dimension} dimensions"
            raise DocumentError(f"expected {expected}, got an array of shape {vectors.shape}")
        check_vectors(vectors, f"shard {self._number}: document")
        arrays = _arrays(vectors, self.manifest.dtype)
        names = shard_files(self._number, self.manifest.dtype)
        files = {}
        for name, array in zip(names, arrays, strict=True):
            with (self._part / name).open("wb") as file:
                np.save(file, array)
            files[name] = StoredFile.record(self._part / name)
        entry = VectorShardEntry(len(docnos), checksum(docnos, texts), files)
        sync_folder(self._part)
        self._add(docnos)
        kept = (*self.manifest.shards, entry)
        self.manifest = replace(self.manifest, shards=kept, cut=self.manifest.cut + cut)
        self.manifest.write(self._part)

    def finish(self) -> None:
        """Write the docnos; give the folder its name.

        Raises
        ------
        IndexFault
            where an unfinished encode had more documents.
        DocumentError
            where a docno comes twice.
        """
        if self.kept:
            raise IndexFault(f"{self._part}: was made from more documents; begin anew (--overwrite)")
        self._docnos.close()
        docnos = {name: StoredFile.record(self._part / name) for name in FILES}
        self.manifest = replace(self.manifest, docnos=docnos, finished=True)
        self.manifest.write(self._part)
        replace_folder(self.folder, self._part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self._docnos.discard()
            self._lock.release()
            remove(Path(f"{self._part}.lock"))

    def _add(self, docnos: Sequence[str]) -> None:
        for docno in docnos:
            self._docnos.add(docno)
        self._number += 1

    def _begun(self, manifest: VectorManifest, *, overwrite: bool) -> VectorManifest:
        """What is there already of the same vectors, or a manifest of none."""
        if overwrite or not (self._part / MANIFEST).is_file():
            return replace(manifest, shards=(), docnos={}, cut=0, finished=False)
        there = VectorManifest.read(self._part)
        same = replace(there, shards=(), docnos={}, cut=0, finished=False)
        if same != replace(manifest, shards=(), docnos={}, cut=0, finished=False):
            raise IndexFault(
                f"{self._part}: was begun {_difference(same, manifest)}; begin anew (--overwrite)"
            )
        for entry in there.shards:
            verify_files(self._part, entry.files, "verifying vectors")
        return replace(there, docnos={}, finished=False)

    def _sweep(self) -> None:
        """Remove what the manifest does not name: what a killed writer had begun."""
        shards = self.manifest.shards
        named = {name for entry in shards for name in entry.files} | ({MANIFEST} if shards else set())
        sweep(self._part.iterdir(), named)


def write_vectors(
    folder: str | Path,
    blocks: Iterable[tuple[Sequence[str], Floats]],
    manifest: VectorManifest,
    *,
    overwrite: bool = False,
) -> Vectors:
    """Vectors made elsewhere: blocks of docnos and float32 vectors, each of which becomes a shard.

    Raises
    ------
    IndexFault, IndexLocked, DocumentError
        as :class:`VectorWriter`.
    """
    with VectorWriter(folder, manifest, overwrite=overwrite) as writer:
        for docnos, vectors in blocks:
            if writer.kept:
                writer.skip(docnos, ())
            else:
                writer.add(docnos, (), vectors)
    return Vectors(folder)


def checksum(docnos: Iterable[str], texts: Iterable[str]) -> int:
    value = 0
    for text in (*docnos, *texts):
        value = zlib.crc32(text.encode("utf-8", "surrogatepass") + b"\0", value)
    return value


def _arrays(vectors: Floats, dtype: str) -> tuple[np.ndarray, ...]:
    """What a shard's files hold (see :mod:`.vectors`)."""
    stored = None if dtype == "int8" else narrowed(vectors, dtype)
    seen = np.ascontiguousarray(vectors, np.float32) if stored is None else rotated(widened(stored, dtype))
    codes = np.empty((len(seen), padded(seen.shape[1])), np.int8)
    bounds = np.empty((len(seen), 4), np.float32)
    kernel.quantise(seen, codes, bounds)
    if stored is None:
        bounds[:, 1] = 0  # the codes are the vectors: they miss nothing
        return codes, bounds
    return stored, codes, bounds


def _refuse(folder: Path, *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not is_vectors(folder):
        raise IndexFault(f"{folder}: holds other things; vectors need a folder of their own")
    if not overwrite:
        raise IndexFault(f"{folder}: holds vectors already: overwrite them (--overwrite)")


def _difference(one: VectorManifest, other: VectorManifest) -> str:
    for name in ("model", "fingerprint", "dtype", "dimension", "collection", "source", "settings"):
        if getattr(one, name) != getattr(other, name):
            return f"with {name} {getattr(one, name)!r}, not {getattr(other, name)!r}"
    return "otherwise"
