"""The vectors of an index, which follow its documents (see :mod:`telerank.dense.follow`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.dense.manifest import VectorManifest
from telerank.errors import IndexFault, MissingExtra, MissingVectors, ModelError, count_noun
from telerank.sparse.index import IndexManifest, SparseIndex, open_segments
from telerank.types import Progress

if TYPE_CHECKING:
    from telerank.dense.encode import Encoding
    from telerank.dense.encoder import Encoder
    from telerank.dense.segments import IndexDocuments
    from telerank.dense.vectors import Vectors
    from telerank.sparse.segment import Segment
    from telerank.sparse.writer import BeforeCommit


def open_vectors(folder: Path, index: SparseIndex) -> Vectors:
    """The vectors in a folder of the documents of an index; a warning counts those that have none.

    Raises
    ------
    IndexFault
        If no document has one.
    """
    from telerank.dense.vectors import Vectors

    vectors = Vectors(folder, documents_of(index))
    if vectors.lacking and not len(vectors):
        raise IndexFault(f"{folder}: no document of the index has a vector: encode it again")
    if note := describe_lacking(vectors):
        warnings.warn(f"{note} (encode the index to add them)", MissingVectors, stacklevel=3)
    return vectors


def describe_lacking(vectors: Vectors) -> str:
    """How many documents of the index have no vector; empty if all have one."""
    if not vectors.lacking:
        return ""
    documents = f"{vectors.lacking:,} of {count_noun(len(vectors) + vectors.lacking, 'document')}"
    return f"{vectors.folder.parents[1]}: the vectors of {vectors.folder.name} lack {documents}"


def count_lacking(folder: Path, index: SparseIndex) -> int:
    """How many documents of an index have no vector in a folder."""
    from telerank.dense.vectors import Vectors

    return Vectors(folder, documents_of(index)).lacking


def describe_vectors(folder: Path, index: SparseIndex | None) -> str:
    """Number, dimensions and type of vectors, their model, and how many documents of an index have none."""
    from telerank.dense.vectors import Vectors

    manifest = VectorManifest.read(folder)
    vectors = Vectors(folder, None if index is None else documents_of(index))
    described = f"{len(vectors):,} x {manifest.dimension} {manifest.dtype} by {manifest.model}"
    described += f" of {', '.join(manifest.fields)}" if manifest.fields else ""
    lacking = count_noun(vectors.lacking, "document")
    return f"{described}; {lacking} without" if vectors.lacking else described


def documents_of(index: SparseIndex) -> IndexDocuments:
    """The documents of an index as its vectors need them."""
    return _documents_of(index.manifest, index.segments)


def _documents_of(manifest: IndexManifest, segments: Iterable[Segment]) -> IndexDocuments:
    from telerank.dense.segments import DocumentSegment, IndexDocuments

    each = (DocumentSegment(segment.folder.name, segment.docs, segment.deleted) for segment in segments)
    return IndexDocuments(manifest.state, tuple(each))


def copy_vectors(index: Path, folders: Iterable[Path]) -> BeforeCommit:
    """What is called before a change of an index is committed: texts that move keep their vectors."""
    from telerank.dense.follow import FollowingVectors

    def copy(before: IndexManifest, after: IndexManifest) -> None:
        old, new = (_documents_of(each, open_segments(index, each)) for each in (before, after))
        for folder in folders:
            with FollowingVectors(folder, old) as vectors:
                vectors.copy(new)

    return copy


def complete_vectors(
    index: SparseIndex,
    folders: Mapping[str, Path],
    open_encoder: Callable[[str, VectorManifest], Encoder],
    progress: Progress,
) -> None:
    """Encode the documents that have no vector in these folders, by their names.

    Approximate indexes of vectors that were merged are built again. If a model cannot be opened a warning
    (MissingVectors) says which documents lack.
    """
    from telerank.dense.follow import FollowingVectors
    from telerank.dense.retriever import build_approximate, list_reports
    from telerank.dense.vectors import Vectors

    docs = documents_of(index)
    for name, folder in folders.items():
        with FollowingVectors(folder, docs) as writer:
            writer.copy(docs)
            vectors = Vectors(folder, docs)
            try:
                if vectors.lacking:
                    writer.encode(docs, open_encoder(name, writer.manifest), progress)
            except (ModelError, MissingExtra) as error:
                warnings.warn(f"{describe_lacking(vectors)}: {error}", MissingVectors, stacklevel=4)
            approximate = list_reports(folder, writer.manifest)
            writer.drop(docs)
            lost = approximate.keys() - list_reports(folder, writer.manifest).keys()
        for kind in lost:  # of shards that a merge has replaced
            build_approximate(Vectors(folder, docs), kind, progress=progress)


def finish_vectors(
    index: Path, folder: Path, encoder: Encoder, encoding: Encoding, progress: Progress
) -> Vectors:
    """The vectors in a folder of the documents of an index, when those that lack are encoded, too.

    Raises
    ------
    IndexFault
        If there are others than the encoder makes.
    """
    from telerank.dense.encode import check_same
    from telerank.dense.vectors import Vectors

    current = SparseIndex(index)
    vectors = Vectors(folder, documents_of(current))
    check_same(vectors, encoder, encoding)
    if vectors.lacking or not vectors.manifest.follows:
        complete_vectors(current, {folder.name: folder}, lambda *_: encoder, progress)
    return Vectors(folder, documents_of(current))
