"""Encoding documents into a folder: batches of similar lengths in a shard, rows in the documents' order.

Shard after shard is written into ``OUT.writing``, which gets the name ``OUT`` at the end. After a crash the
next writer resumes after the last whole shard, and within the next one (see :mod:`.unfinished`). Beside a
complete ``OUT`` the folder is of no use: then the next writer removes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self

import filelock
import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import FILES, DocnosWriter
from telerank.corpus.read_fields import FieldNames, read_each
from telerank.dense import kernel
from telerank.dense.encoder import Encoder
from telerank.dense.kinds import Floats, check_kind, check_vectors, narrow, pad_width, rotate, widen
from telerank.dense.manifest import FIELDS, VectorManifest, VectorShardEntry, is_vectors
from telerank.dense.unfinished import UnfinishedShard, is_unfinished
from telerank.dense.vectors import Vectors, shard_files
from telerank.drafts import DRAFT, remove, replace_folder, sweep, sweep_replaced, sync_folder
from telerank.errors import DocumentError, IndexFault, ModelError
from telerank.stored import MANIFEST, StoredFile, becoming_writer, verify_files
from telerank.types import TEXT_FIELDS, Doc, Progress, silent


class VectorWriter:
    """The only writer of a folder of vectors; a context manager that renames the folder at the end.

    ``manifest`` describes the vectors. If there is an unfinished folder with the same description, its shards
    are :attr:`kept`: pass their documents to :meth:`skip`. Raises IndexFault if the folder exists and
    ``overwrite`` is not set, or an unfinished one has another description; IndexLocked if another process
    writes to it.
    """

    def __init__(self, folder: str | Path, manifest: VectorManifest, *, overwrite: bool = False) -> None:
        check_kind(manifest.dtype)
        self.folder = Path(folder).resolve()
        self._draft = _draft(self.folder)
        self._lock = writer_lock(self.folder)
        with becoming_writer(self.folder, "another process encodes into it", self._release):
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            if self.folder.exists() and not is_vectors(self.folder):
                raise IndexFault(f"{self.folder}: holds other things; vectors need a folder of their own")
            _sweep(self.folder)
            if self.folder.exists() and not overwrite:
                raise IndexFault(f"{self.folder}: holds vectors already: overwrite them (overwrite=True)")
            self._draft.mkdir(exist_ok=True)
            self.manifest = self._resume(manifest, overwrite=overwrite)
            shards = self.manifest.shards  # other files are those of a killed writer
            named = {name for entry in shards for name in entry.files} | ({MANIFEST} if shards else set())
            sweep((path for path in self._draft.iterdir() if not is_unfinished(path)), named)
            self._docnos = DocnosWriter(self._draft)
        self._kept = self.manifest.shards
        self._number = 0  # of the next shard

    @property
    def kept(self) -> tuple[VectorShardEntry, ...]:
        """The finished shards that are still to be skipped."""
        return self._kept[self._number :]

    def skip(self, docs: Sequence[Doc]) -> None:
        """Skip a finished shard; raises IndexFault if it was made from other documents."""
        entry = self._kept[self._number]
        if len(docs) != entry.rows or compute_texts_checksum(docs) != entry.texts:
            raise IndexFault(
                f"{self._draft}: its shard {self._number} was made from other documents; "
                "begin anew (overwrite=True)"
            )
        self._add(docs)

    def add(self, docs: Sequence[Doc], vectors: Floats, *, cut: int = 0) -> None:
        """Write a shard of the float32 vectors (rows, D) of documents, ``cut`` of which were cut."""
        if vectors.shape != (len(docs), self.manifest.dimension):
            raise DocumentError(
                f"expected {len(docs)} vectors of {self.manifest.dimension} dimensions, "
                f"got an array of shape {vectors.shape}"
            )
        check_vectors(vectors, f"shard {self._number}: document")
        dtype = self.manifest.dtype
        files = dict(zip(shard_files(self._number, dtype), make_arrays(vectors, dtype), strict=True))
        entry = write_shard(self._draft, files, docs)
        self._add(docs)
        shards = (*self.manifest.shards, entry)
        self.manifest = replace(self.manifest, shards=shards, cut=self.manifest.cut + cut)
        self.manifest.write(self._draft)

    def open_unfinished(self, ahead: int, docs: Sequence[Doc], encoder: Encoder) -> UnfinishedShard:
        """What a killed writer has computed of a shard, ``ahead`` of which are encoded before by this one."""
        return open_unfinished(self._draft, len(self._kept) + ahead, docs, encoder, self.manifest)

    def finish(self) -> None:
        """Write the docnos and rename the folder; raises DocumentError if a docno occurs twice."""
        if self.kept:
            raise IndexFault(f"{self._draft}: was made from more documents; begin anew (overwrite=True)")
        self._docnos.close()
        sweep(filter(is_unfinished, self._draft.iterdir()))
        docnos = {name: StoredFile.record(self._draft / name) for name in FILES}
        self.manifest = replace(self.manifest, docnos=docnos, finished=True)
        self.manifest.write(self._draft)
        replace_folder(self.folder, self._draft)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self._docnos.discard()
            self._release()

    def _add(self, docs: Sequence[Doc]) -> None:
        for doc in docs:
            self._docnos.add(doc.docno)
        self._number += 1

    def _release(self) -> None:
        if self._lock.is_locked:
            remove(Path(self._lock.lock_file))
            self._lock.release()

    def _resume(self, manifest: VectorManifest, *, overwrite: bool) -> VectorManifest:
        """The manifest of the unfinished folder, or one without shards."""
        manifest = replace(manifest, shards=(), docnos={}, cut=0, finished=False)
        if overwrite or not (self._draft / MANIFEST).is_file():
            return manifest
        unfinished = VectorManifest.read(self._draft)
        empty = replace(unfinished, shards=(), docnos={}, cut=0, finished=False)
        if empty != manifest:
            names = ("model", "fingerprint", "dtype", "dimension", "collection", "source", "settings")
            pairs = ((name, getattr(empty, name), getattr(manifest, name)) for name in names)
            differences = (f"with {name} {old!r}, not {new!r}" for name, old, new in pairs if old != new)
            difference = next(differences, "otherwise")
            raise IndexFault(f"{self._draft}: was begun {difference}; begin anew (overwrite=True)")
        for entry in unfinished.shards:
            verify_files(self._draft, entry.files, "verifying vectors")
        return replace(unfinished, docnos={}, finished=False)


def open_unfinished(
    folder: Path, number: int, docs: Sequence[Doc], encoder: Encoder, manifest: VectorManifest
) -> UnfinishedShard:
    """What was computed of a shard of a folder by this encoder."""
    settings = manifest.fingerprint, dict(manifest.settings)
    return UnfinishedShard(folder, number, docs, settings, encoder.dimension)


def write_shard(
    folder: Path, files: Mapping[str, npt.NDArray[Any]], docs: Sequence[Doc], segments: tuple[str, ...] = ()
) -> VectorShardEntry:
    """Write the arrays of a shard by the names of their files, flushed to the disk."""
    stored = {}
    for name, array in files.items():
        with (folder / name).open("wb") as file:
            np.save(file, array)
        stored[name] = StoredFile.record(folder / name)
    sync_folder(folder)
    return VectorShardEntry(len(docs), compute_texts_checksum(docs), stored, segments)


def sweep_vectors(folder: Path) -> None:
    """Remove what a killed writer has left beside complete vectors, unless a writer is at work."""
    lock = writer_lock(folder)
    with suppress(OSError), lock:  # also if nothing can be written here
        _sweep(folder)
        remove(Path(lock.lock_file))


def compute_texts_checksum(docs: Sequence[Doc]) -> int:
    """The crc32 of the documents' docnos and texts."""
    value = 0
    for text in (*(doc.docno for doc in docs), *(doc.full_text for doc in docs)):
        value = zlib.crc32(text.encode("utf-8", "surrogatepass") + b"\0", value)
    return value


def _draft(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{DRAFT}")


def writer_lock(folder: Path) -> filelock.BaseFileLock:
    return filelock.FileLock(f"{_draft(folder)}.lock", timeout=0, thread_local=False)


def _sweep(folder: Path) -> None:
    sweep_replaced(folder)
    if folder.exists():
        remove(_draft(folder))


def make_arrays(vectors: Floats, dtype: str) -> tuple[np.ndarray, ...]:
    """The arrays of the files of a shard, as ``shard_files`` names them."""
    stored = None if dtype == "int8" else narrow(vectors, dtype)
    exact = np.ascontiguousarray(vectors, np.float32) if stored is None else rotate(widen(stored, dtype))
    codes = np.empty((len(exact), pad_width(exact.shape[1])), np.int8)
    bounds = np.empty((len(exact), 4), np.float32)
    kernel.quantise(exact, codes, bounds)
    if stored is None:
        bounds[:, 1] = 0  # the codes are the vectors: there is no rounding error
        return codes, bounds
    return stored, codes, bounds


@dataclass(frozen=True)
class Encoding:
    """How documents are encoded.

    ``shard`` documents are encoded and written together; memory holds the texts
    and vectors of three shards (each 50 MB for 16,384 vectors of 768 float32): while one is encoded, the
    next is tokenised and the one before is written. ``batch_tokens`` limits a batch: the
    tokens of its longest text times the number of its texts. ``collection`` and ``source`` are recorded.
    ``fields`` are encoded instead of title and text (:mod:`telerank.corpus.read_fields`).
    """

    dtype: str = "float16"
    shard: int = 16_384
    batch_tokens: int = 4096
    collection: str = ""
    source: str = ""
    fields: FieldNames = ()

    def __post_init__(self) -> None:
        check_kind(self.dtype)
        for name in ("shard", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} must be at least 1, got {getattr(self, name)}")

    def read(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """The documents as they are encoded."""
        return read_each(docs, self.fields)


def encode_documents(
    docs: Iterable[Doc],
    folder: str | Path,
    encoder: Encoder,
    *,
    encoding: Encoding | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Vectors:
    """Encode title and text of documents, or other fields, into a folder, unless these vectors are there.

    A run that was killed is resumed with the same settings after its last whole shard; the files are the
    same, byte for byte, as those of an uninterrupted run on the same machine. Raises IndexFault
    if other vectors are there, and as :class:`~telerank.dense.encode.VectorWriter`; DocumentError if there is
    no document.
    """
    how = encoding or Encoding()
    sweep_vectors(Path(folder).resolve())
    if not overwrite and (complete := find_vectors(docs, folder, encoder, how)) is not None:
        return complete
    with VectorWriter(folder, describe_vectors(encoder, how), overwrite=overwrite) as writer:
        stream, done = how.read(docs), 0
        while writer.kept and (part := list(islice(stream, how.shard))):
            writer.skip(part)
            done += len(part)
            progress("encoding", done, None)

        parts = iter(lambda: list(islice(stream, how.shard)), [])
        done = encode_shards(parts, encoder, writer, how.batch_tokens, done=done, progress=progress)
        if not done:
            raise DocumentError("there is no document to encode")
    return Vectors(folder)


class ShardWriter(Protocol):
    """What writes shards: one at a time, in their order."""

    def add(self, docs: Sequence[Doc], vectors: Floats, *, cut: int = 0) -> None: ...

    def open_unfinished(self, ahead: int, docs: Sequence[Doc], encoder: Encoder) -> UnfinishedShard:
        """What a killed writer has computed of a shard, ``ahead`` of which are encoded before by this one."""


def encode_shards(
    parts: Iterator[list[Doc]],
    encoder: Encoder,
    writer: ShardWriter,
    batch_tokens: int,
    *,
    done: int = 0,
    progress: Progress = silent,
) -> int:
    """Encode the documents of each shard; their number, and those ``done`` before.

    While one is encoded, the next is read and tokenised, and the one before is written.
    """

    def read() -> tuple[list[Doc], list[list[int]], int]:
        """The next shard, its tokens, and how many of its documents were cut."""
        docs = next(parts, [])
        return docs, *(encoder.tokenize([doc.full_text for doc in docs]) if docs else ([], 0))

    def write(docs: list[Doc], vectors: Floats, cut: int, unfinished: UnfinishedShard) -> None:
        writer.add(docs, vectors, cut=cut)
        unfinished.remove()

    def count_on(label: str, more: int, total: int | None) -> None:
        progress(label, done + more, total)

    with ThreadPoolExecutor(1, "tokenising") as reading, ThreadPoolExecutor(1, "writing") as writing:
        waiting, written, number = reading.submit(read), list[Future[None]](), 0
        while (shard := waiting.result())[0]:
            waiting = reading.submit(read)
            part, tokens, cut = shard
            unfinished = writer.open_unfinished(number, part, encoder)
            vectors = encoder.encode_tokens(tokens, batch_tokens, count_on, unfinished)
            for future in written:
                future.result()
            written = [writing.submit(write, part, vectors, cut, unfinished)]
            number += 1
            done += len(part)
            progress("encoding", done, None)
        for future in written:
            future.result()
    return done


def describe_vectors(encoder: Encoder, encoding: Encoding) -> VectorManifest:
    """The description of vectors that are to be made."""
    own = {FIELDS: list(encoding.fields)} if encoding.fields else {}
    return VectorManifest(
        encoder.dimension,
        encoding.dtype,
        encoder.name,
        encoder.fingerprint,
        {**encoder.settings, "shard": encoding.shard, "batch_tokens": encoding.batch_tokens, **own},
        encoding.collection,
        encoding.source,
    )


def find_vectors(
    docs: Iterable[Doc], folder: str | Path, encoder: Encoder, encoding: Encoding
) -> Vectors | None:
    """The vectors in a folder, if the encoder would make the same ones; None if there are none.

    Raises IndexFault if there are others.
    """
    if not is_vectors(Path(folder)):
        return None
    vectors = Vectors(folder)
    check_same(vectors, encoder, encoding)
    folder, manifest = vectors.folder, vectors.manifest
    is_same = manifest.source == encoding.source
    if is_same and not encoding.source:
        stream = encoding.read(docs)
        parts = ((shard, list(islice(stream, shard.rows))) for shard in manifest.shards)
        is_same = all(compute_texts_checksum(part) == shard.texts for shard, part in parts)
        is_same = is_same and next(stream, None) is None
    if not is_same:
        changed = (
            "index has changed since: encode it" if encoding.source else "documents are others: encode them"
        )
        raise IndexFault(f"{folder}: the {changed} again (overwrite=True)")
    return vectors


def check_same(vectors: Vectors, encoder: Encoder, encoding: Encoding) -> None:
    """Raise IndexFault if vectors are not of this model and type."""
    manifest = vectors.manifest
    if (manifest.fingerprint, manifest.dtype) != (encoder.fingerprint, encoding.dtype):
        raise IndexFault(
            f"{vectors.folder}: holds other vectors already ({manifest.dtype} by {manifest.model}): "
            "overwrite them (overwrite=True)"
        )
    if manifest.fields != encoding.fields:
        present, given = (", ".join(names or TEXT_FIELDS) for names in (manifest.fields, encoding.fields))
        raise IndexFault(
            f"{vectors.folder}: these vectors are of {present}, not of {given}: "
            "give others a name of their own, or overwrite them (overwrite=True)"
        )
