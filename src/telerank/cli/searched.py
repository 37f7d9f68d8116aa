"""What ``telerank search`` can search: an index, its vectors, or a folder of vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from telerank.errors import CollectionError

if TYPE_CHECKING:
    from telerank.dense.vectors import Vectors
    from telerank.retrieval.index import Index
    from telerank.sparse.index import SparseIndex
    from telerank.stage import Stage
    from telerank.types import Doc

_DENSE = re.compile(r"\s*dense\(\s*(.+?)\s*\)\s*")


@dataclass(frozen=True)
class Searched:
    """A retriever, the record of what it searches, and the documents, where they are there."""

    stage: Stage
    identity: dict[str, Any]
    index: Index | None

    def doc(self, docno: str) -> Doc:
        """The document; of a folder of vectors, its docno alone."""
        from telerank.types import Doc

        return self.index.docs[docno] if self.index else Doc(docno, "")

    def described(self, stage: Any) -> dict[str, Any]:
        model = getattr(stage, "similarity", None)
        named = f"dense({stage.encoder.name})" if model is None else repr(model)
        kind = {"approximate": stage.kind} if hasattr(stage, "kind") else {}
        return {"model": named, "depth": stage.depth, **kind}


@dataclass(frozen=True)
class Asked:
    """The options that decide what is searched, and how."""

    model: str | None
    analyzer: str | None
    approximate: str | None
    threads: int
    batch: int


def opened(where: str, asked: Asked) -> Searched:
    """An index or a folder of vectors, ready to be searched.

    Raises
    ------
    CollectionError
        where an option does not fit what is there.
    """
    import telerank
    from telerank.dense.manifest import is_vectors
    from telerank.text import Analyzer

    if is_vectors(Path(where)):
        if asked.analyzer is not None:
            raise CollectionError(f"{where}: vectors have no analyzer")
        named = _DENSE.fullmatch(asked.model or "")
        return _dense(where, named[1] if named else asked.model, None, asked)
    index = telerank.open(where)
    if asked.analyzer is not None:
        index.sparse.require(Analyzer.parse(asked.analyzer))
    if dense := _DENSE.fullmatch(asked.model or ""):
        return _dense(where, dense[1], index, asked)
    if asked.approximate is not None:
        raise CollectionError("--approximate is for vectors: --model 'dense(minilm)'")
    stage = replace(index.retriever(asked.model or "bm25"), threads=asked.threads, batch=asked.batch)
    return Searched(stage, _of_index(index.sparse), index)


def _dense(where: str, model: str | None, index: Index | None, asked: Asked) -> Searched:
    from telerank.dense.retriever import open_retriever

    found = open_retriever(where, model) if index is None or model is None else index.dense(model)
    stage: Any = replace(cast("Any", found), threads=asked.threads, batch=asked.batch)
    if asked.approximate is not None:
        from telerank.dense.approximate import ApproximateRetriever

        stage = ApproximateRetriever(found.vectors, found.encoder, asked.approximate, batch=asked.batch)
    return Searched(stage, _of_vectors(found.vectors), index)


def _of_index(index: SparseIndex) -> dict[str, Any]:
    crc = [{name: part.crc32 for name, part in entry.files.items()} for entry in index.manifest.segments]
    return {"folder": str(index.folder), "analyzer": str(index.analyzer), "crc32": crc}


def _of_vectors(vectors: Vectors) -> dict[str, Any]:
    manifest = vectors.manifest
    crc = [{name: part.crc32 for name, part in entry.files.items()} for entry in manifest.shards]
    return {"folder": str(vectors.folder), "fingerprint": manifest.fingerprint, "crc32": crc}
