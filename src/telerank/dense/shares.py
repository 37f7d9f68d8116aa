"""Encoding by several processes that ``torchrun`` has started, a GPU each: every one takes a share."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from torch import distributed

from telerank.dense.encode import Encoding, describe_vectors, find_vectors
from telerank.dense.encoder import Encoder
from telerank.dense.vectors import Vectors
from telerank.dense.writer import VectorWriter
from telerank.errors import DocumentError
from telerank.types import Doc, Progress, silent


def encode_shares(
    docs: Iterable[Doc],
    folder: str | Path,
    encoder: Encoder,
    *,
    encoding: Encoding,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Vectors:
    """The vectors that :func:`~telerank.dense.encode.encode_documents` makes, by all processes of the group.

    Process r of n encodes shards r, r + n, …; each reads all documents, and the first one writes. It raises
    as that function does.
    """
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if not overwrite and (complete := find_vectors(docs, folder, encoder, encoding)) is not None:
        return complete
    manifest, done = describe_vectors(encoder, encoding), 0
    with VectorWriter(folder, manifest, overwrite=overwrite) if rank == 0 else nullcontext() as writer:
        kept = [0 if writer is None else len(writer.kept)]
        distributed.broadcast_object_list(kept)
        stream = iter(docs)
        for _ in range(kept[0]):
            part = list(islice(stream, encoding.shard))
            if writer is not None:
                writer.skip([doc.docno for doc in part], [doc.full_text for doc in part])
            done += len(part)
        while parts := [part for _ in range(size) if (part := list(islice(stream, encoding.shard)))]:
            own = _encode(encoder, parts[rank], encoding.batch_tokens) if rank < len(parts) else None
            everyone: list[Any] | None = None if writer is None else [None] * size
            distributed.gather_object(own, everyone)
            if writer is not None and everyone is not None:
                for part, (vectors, cut) in zip(parts, everyone, strict=False):
                    texts = [doc.full_text for doc in part]
                    writer.add([doc.docno for doc in part], texts, vectors, cut=cut)
            done += sum(map(len, parts))
            progress("encoding", done, None)
        if not done:
            raise DocumentError("there is no document to encode")
    distributed.barrier()  # the folder has its name now
    return Vectors(folder)


def _encode(encoder: Encoder, part: list[Doc], tokens: int) -> tuple[Any, int]:
    ids, cut = encoder.tokenize([doc.full_text for doc in part])
    return encoder.encode_tokens(ids, tokens), cut
