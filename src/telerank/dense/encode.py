"""Encoding documents into a folder: batches of similar lengths in a shard, rows in the documents' order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from telerank.batches import batch_by_length
from telerank.dense.encoder import Encoder
from telerank.dense.kinds import Floats, check_kind
from telerank.dense.manifest import VectorManifest, is_vectors
from telerank.dense.vectors import Vectors
from telerank.dense.writer import VectorWriter, compute_texts_checksum, sweep_vectors
from telerank.errors import DocumentError, IndexFault, ModelError
from telerank.types import Doc, Progress, silent


@dataclass(frozen=True)
class Encoding:
    """How documents are encoded.

    ``shard`` documents are encoded and written together, and kept after a crash; memory holds the texts
    and vectors of one shard (50 MB for 16,384 vectors of 768 float32). ``batch_tokens`` limits a batch: the
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
    if not overwrite and is_vectors(Path(folder)):
        return _check_vectors(Vectors(folder), docs, encoder, how)
    settings = {**encoder.settings, "shard": how.shard, "batch_tokens": how.batch_tokens}
    manifest = VectorManifest(
        encoder.dimension, how.dtype, encoder.name, encoder.fingerprint, settings, how.collection, how.source
    )
    done = 0
    with VectorWriter(folder, manifest, overwrite=overwrite) as writer:
        stream = iter(docs)
        while part := list(islice(stream, how.shard)):
            docnos, texts = [doc.docno for doc in part], [doc.full_text for doc in part]
            if writer.kept:
                writer.skip(docnos, texts)
            else:
                tokens, cut = encoder.tokenize(texts)
                vectors = _encode(encoder, tokens, how.batch_tokens, done, progress)
                writer.add(docnos, texts, vectors, cut=cut)
            done += len(part)
            progress("encoding", done, None)
        if not done:
            raise DocumentError("there is no document to encode")
    return Vectors(folder)


def _check_vectors(vectors: Vectors, docs: Iterable[Doc], encoder: Encoder, encoding: Encoding) -> Vectors:
    """The vectors, if the encoder would make the same ones."""
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


def _encode(
    encoder: Encoder, tokens: Sequence[Sequence[int]], budget: int, done: int, progress: Progress
) -> Floats:
    vectors = np.empty((len(tokens), encoder.dimension), np.float32)
    encoded = 0
    for batch in batch_by_length(list(map(len, tokens)), budget):
        vectors[batch] = encoder.encode_tokens([tokens[row] for row in batch])
        encoded += len(batch)
        progress("encoding", done + encoded, None)
    return vectors
