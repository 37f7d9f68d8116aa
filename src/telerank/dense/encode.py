"""Encoding documents into a folder: batches of similar lengths in a shard, rows in the documents' order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from telerank.dense.encoder import Encoder
from telerank.dense.kinds import check_kind
from telerank.dense.manifest import VectorManifest, is_vectors
from telerank.dense.vectors import Vectors
from telerank.dense.writer import VectorWriter, compute_texts_checksum, sweep_vectors
from telerank.errors import DocumentError, IndexFault, ModelError
from telerank.types import Doc, Progress, silent


@dataclass(frozen=True)
class Encoding:
    """How documents are encoded.

    ``shard`` documents are encoded and written together, and kept after a crash; memory holds the texts
    and vectors of three shards (each 50 MB for 16,384 vectors of 768 float32): while one is encoded, the
    next is tokenised and the one before is written. ``batch_tokens`` limits a batch: the
    tokens of its longest text times the number of its texts. ``collection`` and ``source`` are recorded.
    """

    dtype: str = "float16"
    shard: int = 16_384
    batch_tokens: int = 4096
    collection: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_kind(self.dtype)
        for name in ("shard", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ModelError(f"{name} must be at least 1, got {getattr(self, name)}")


def encode_documents(
    docs: Iterable[Doc],
    folder: str | Path,
    encoder: Encoder,
    *,
    encoding: Encoding | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Vectors:
    """Encode title and text of documents into a folder, unless their vectors are there already.

    A run that was killed is resumed with the same settings after its last whole shard; the files are the
    same, byte for byte, as those of an uninterrupted run on the same machine. Raises IndexFault
    if other vectors are there, and as :class:`~telerank.dense.writer.VectorWriter`; DocumentError if there is
    no document.
    """
    how = encoding or Encoding()
    sweep_vectors(Path(folder).resolve())
    if not overwrite and (complete := find_vectors(docs, folder, encoder, how)) is not None:
        return complete
    manifest = describe_vectors(encoder, how)
    with VectorWriter(folder, manifest, overwrite=overwrite) as writer:
        stream = iter(docs)
        done = _skip(writer, stream, how.shard, progress)
        with ThreadPoolExecutor(1, "tokenising") as reading, ThreadPoolExecutor(1, "writing") as writing:
            waiting, written = reading.submit(_read, encoder, stream, how.shard), None
            while (read := waiting.result()) is not None:
                waiting = reading.submit(_read, encoder, stream, how.shard)
                vectors = encoder.encode_tokens(read.tokens, how.batch_tokens, _behind(progress, done))
                if written is not None:
                    written.result()
                written = writing.submit(writer.add, read.docnos, read.texts, vectors, cut=read.cut)
                done += len(read.docnos)
                progress("encoding", done, None)
            if written is not None:
                written.result()
        if not done:
            raise DocumentError("there is no document to encode")
    return Vectors(folder)


def describe_vectors(encoder: Encoder, encoding: Encoding) -> VectorManifest:
    """The description of vectors that are to be made."""
    settings = {**encoder.settings, "shard": encoding.shard, "batch_tokens": encoding.batch_tokens}
    made_by = encoder.name, encoder.fingerprint
    recorded = encoding.collection, encoding.source
    return VectorManifest(encoder.dimension, encoding.dtype, *made_by, settings, *recorded)


def find_vectors(
    docs: Iterable[Doc], folder: str | Path, encoder: Encoder, encoding: Encoding
) -> Vectors | None:
    """The vectors in a folder, if the encoder would make the same ones; None if there are none.

    Raises IndexFault if there are others.
    """
    if not is_vectors(Path(folder)):
        return None
    vectors = Vectors(folder)
    folder, manifest = vectors.folder, vectors.manifest
    if (manifest.fingerprint, manifest.dtype) != (encoder.fingerprint, encoding.dtype):
        made_by = f"{manifest.dtype} by {manifest.model}"
        raise IndexFault(f"{folder}: holds other vectors already ({made_by}): overwrite them (--overwrite)")
    if manifest.source != encoding.source or not (encoding.source or _are_of(vectors, docs)):
        changed = (
            "index has changed since: encode it" if encoding.source else "documents are others: encode them"
        )
        raise IndexFault(f"{folder}: the {changed} again (--overwrite)")
    return vectors


def _are_of(vectors: Vectors, docs: Iterable[Doc]) -> bool:
    """Whether these are the vectors of the documents, by the checksums of the texts of each shard."""
    stream = iter(docs)
    for shard in vectors.manifest.shards:
        part = list(islice(stream, shard.rows))
        if (
            compute_texts_checksum([doc.docno for doc in part], [doc.full_text for doc in part])
            != shard.texts
        ):
            return False
    return next(stream, None) is None


def _skip(writer: VectorWriter, stream: Iterator[Doc], shard: int, progress: Progress) -> int:
    """Skip the documents of finished shards; return their number."""
    done = 0
    while writer.kept and (part := list(islice(stream, shard))):
        writer.skip([doc.docno for doc in part], [doc.full_text for doc in part])
        done += len(part)
        progress("encoding", done, None)
    return done


class _Read(NamedTuple):
    """The documents of a shard, and the tokens of each; ``cut`` of them were cut."""

    docnos: list[str]
    texts: list[str]
    tokens: list[list[int]]
    cut: int


def _read(encoder: Encoder, stream: Iterator[Doc], shard: int) -> _Read | None:
    """Read and tokenise the next shard; None if there is none."""
    if not (part := list(islice(stream, shard))):
        return None
    texts = [doc.full_text for doc in part]
    return _Read([doc.docno for doc in part], texts, *encoder.tokenize(texts))


def _behind(progress: Progress, done: int) -> Progress:
    """Progress that counts from ``done`` on."""
    return lambda label, more, total: progress(label, done + more, total)
