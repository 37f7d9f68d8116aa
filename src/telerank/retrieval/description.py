"""An index described: what it was made with, its counts and sizes, its vectors and pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telerank.retrieval.folder_update import read_record
from telerank.retrieval.index_tokens import describe_tokens
from telerank.retrieval.index_vectors import describe_vectors
from telerank.sparse.index import describe_copies

if TYPE_CHECKING:
    from telerank.retrieval.index_reader import IndexReader
    from telerank.sparse.index import SparseIndex


def describe_weights(sparse: SparseIndex) -> dict[str, int | str]:
    """Where the weights of terms come from, and how many there are; nothing if there are none."""
    if sparse.manifest.term_weights is None:
        return {}
    files = [segment.weights for segment in sparse.segments if segment.weights is not None]
    return {
        "weights of terms": sparse.manifest.term_weights.description,
        "weights": sum(int(file.offsets[-1]) for file in files),
        "documents without weights": sum(int((file.lengths == 0).sum()) for file in files),
    }


def describe_index(index: IndexReader) -> dict[str, Any]:
    """The facts about an index, by name."""
    facts: dict[str, Any] = {}
    if index.has_texts:
        sparse = index.sparse
        entries = sparse.manifest.segments
        files = [(name, file.bytes) for entry in entries for name, file in entry.files.items()]
        facts = {
            "analyzer": sparse.manifest.analyzer,
            "documents": len(sparse),
            "deleted, not yet merged": sum(entry.deletions for entry in entries),
            **describe_copies(sparse.manifest),
            "documents with a term": sparse.statistics.documents,
            "terms in all": sparse.statistics.tokens,
            "average length": round(sparse.statistics.average_length, 2),
            "columns": dict(sparse.manifest.columns),
            **({"fields": ", ".join(sparse.fields)} if sparse.fields else {}),
            **({"positions": "yes"} if sparse.manifest.positions else {}),
            **describe_weights(sparse),
            "segments": len(entries),
            "bytes of texts": sum(size for name, size in files if name.startswith("docs.")),
            "bytes of the rest": sum(size for name, size in files if not name.startswith("docs.")),
        }
    if (record := read_record(index.folder)) is not None:
        unread = {
            name: f"{file.problem} ({file.reason})" if file.reason else file.problem
            for name, file in record.files.items()
            if file.problem
        }
        facts |= {"files": len(record.files), "files not read": unread}
    docs = index.sparse if index.has_texts else None
    vectors = {name: describe_vectors(folder, docs) for name, folder in index.vectors.items()}
    tokens = {} if docs is None else describe_tokens(docs)
    facts |= {"vectors of tokens": tokens} if tokens else {}
    return {**facts, "vectors": vectors, "pipelines": index.pipelines}
