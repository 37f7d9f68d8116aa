"""The documents of an index as their vectors need them, and the docnos of vectors that follow an index.

A vector of an index belongs to a row of one of its segments, which never change: deleting a document marks
its row, and the vector is searched no more. Texts have digests, by which a document that is written again,
in another segment or under another docno, finds the vector that its text has already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from telerank.columns.filters import Filter
from telerank.corpus.docnos import Docnos
from telerank.corpus.docstore import Docstore
from telerank.types import ColumnDocs, Doc

Rows = npt.NDArray[np.int64]
_FEW = 4096  # docnos that are sorted for one query; of more the order of all is computed once


@runtime_checkable
class SegmentDocs(ColumnDocs, Protocol):
    """The documents of an index, which knows for each segment the rows that a filter hides."""

    def hidden(self, chosen: Filter) -> Sequence[npt.NDArray[np.bool_]]: ...


@dataclass(frozen=True)
class DocumentSegment:
    """A segment of an index: its documents by row, and the marks (documents,) of deleted ones, or (0,)."""

    name: str
    docs: Docstore
    deleted: npt.NDArray[np.bool_]

    @property
    def docnos(self) -> Docnos:
        return self.docs.docnos

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which rows (documents,) are not deleted."""
        return ~self.deleted if len(self.deleted) else np.ones(len(self.docs), np.bool_)


@dataclass(frozen=True)
class IndexDocuments:
    """The segments of an index at one moment; ``state`` is the text that identifies them."""

    state: str
    segments: tuple[DocumentSegment, ...]

    def __len__(self) -> int:
        return sum(len(each.docs) - int(each.deleted.sum()) for each in self.segments)


@dataclass(frozen=True)
class RowLocation:
    """For each vector the number of its segment among those of the index, -1 for none, and its row there."""

    segments: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]

    def find_live(self, index: IndexDocuments) -> npt.NDArray[np.bool_]:
        """Which vectors (N,) are those of documents that are not deleted."""
        live = self.segments >= 0
        for number, segment in enumerate(index.segments):
            if len(segment.deleted):
                inside = np.flatnonzero(self.segments == number)
                live[inside] = ~segment.deleted[self.rows[inside]]
        return live


def locate_in_order(index: IndexDocuments) -> RowLocation:
    """Of vectors of all documents of the index, in their order."""
    kept = [np.flatnonzero(segment.kept).astype(np.int32) for segment in index.segments]
    owners = np.repeat(np.arange(len(kept), dtype=np.int32), [len(rows) for rows in kept])
    return RowLocation(owners, np.concatenate([np.empty(0, np.int32), *kept]))


def locate_by_docno(docnos: Docnos, index: IndexDocuments, source: str) -> RowLocation:
    """Of vectors of these docnos, made when the state of the index was ``source``.

    Segments do not change: a document of a segment that the state names has the text that was encoded.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    location = RowLocation(np.full(len(docnos), -1, np.int32), np.zeros(len(docnos), np.int32))
    encoded = pa.array(docnos.take(np.arange(len(docnos))), pa.string())
    named = {item.partition("/")[0] for item in source.split()}
    for number, segment in enumerate(index.segments):
        if segment.name in named:
            rows = np.flatnonzero(segment.kept)
            names = pa.array(segment.docnos.take(rows), pa.string())
            vectors = pc.index_in(names, value_set=encoded).fill_null(-1).to_numpy()
            location.segments[vectors[vectors >= 0]] = number
            location.rows[vectors[vectors >= 0]] = rows[vectors >= 0]
    return location


class SegmentDocnos:
    """The docnos of the vectors of an index, whose rows are those of :class:`RowLocation`; as ``Docnos``."""

    def __init__(self, index: IndexDocuments, location: RowLocation, live: Rows) -> None:
        self._index, self._location, self._live = index, location, live

    def take(self, rows: npt.ArrayLike) -> list[str]:
        """The docnos of vectors, in the order of the rows."""
        numbers = np.asarray(rows, np.int64)
        owners, inside = self._location.segments[numbers], self._location.rows[numbers]
        names = np.empty(len(numbers), object)
        for owner in np.unique(owners):
            where = owners == owner
            names[where] = self._index.segments[owner].docnos.take(inside[where])
        return names.tolist()

    def row(self, docno: str) -> int:
        """The row of the vector of a document; KeyError if it has none."""
        for segment, rows in zip(self._index.segments, self.by_segment, strict=True):
            with suppress(KeyError):
                if (row := rows[segment.docnos.row(docno)]) >= 0:
                    return int(row)
        raise KeyError(docno)

    def ranks(self, rows: Rows) -> Rows:
        """Numbers (n,) in the order of the docnos of rows (n,)."""
        if len(self._index.segments) == 1:
            return self._index.segments[0].docnos.rank[self._location.rows[rows]].astype(np.int64)
        if len(rows) > _FEW:
            return self._order[rows]
        names = self.take(rows)
        ranks = np.empty(len(rows), np.int64)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return ranks

    def __iter__(self) -> Iterator[str]:
        return iter(self.take(self._live))

    def __contains__(self, docno: str) -> bool:
        with suppress(KeyError):
            return self.row(docno) >= 0
        return False

    def __len__(self) -> int:
        return len(self._live)

    @cached_property
    def by_segment(self) -> list[Rows]:
        """For each segment the vectors of its rows, -1 for none."""
        owners = self._location.segments[self._live]
        rows = []
        for number, segment in enumerate(self._index.segments):
            vectors, own = np.full(len(segment.docs), -1, np.int64), self._live[owners == number]
            vectors[self._location.rows[own]] = own
            rows.append(vectors)
        return rows

    @cached_property
    def _order(self) -> Rows:
        import pyarrow as pa
        import pyarrow.compute as pc

        ranks = np.zeros(len(self._location.rows), np.int64)
        order = pc.array_sort_indices(pa.array(self.take(self._live), pa.string())).to_numpy()
        ranks[self._live[order]] = np.arange(len(order))
        return ranks


def compute_digests(docs: Iterable[Doc]) -> npt.NDArray[np.uint64]:
    """Of each text 16 bytes of BLAKE2b, as (n, 2)."""
    texts = (doc.full_text.encode("utf-8", "surrogatepass") for doc in docs)
    return np.frombuffer(
        b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts), np.uint64
    ).reshape(-1, 2)


class KnownTexts:
    """The vectors of texts by their digests (N, 2), of which zeros are those of unknown texts."""

    def __init__(self, digests: Sequence[npt.NDArray[np.uint64]]) -> None:
        self._digests = np.concatenate([np.empty((0, 2), np.uint64), *digests])
        some = np.flatnonzero(self._digests.any(axis=1))
        self._order = some[np.argsort(self._digests[some, 0], kind="stable")]
        self._firsts = self._digests[self._order, 0]

    def find(self, digests: npt.NDArray[np.uint64]) -> Rows:
        """The rows (n,) of vectors of texts, -1 for none."""
        if not len(self._order):
            return np.full(len(digests), -1, np.int64)
        at = np.minimum(np.searchsorted(self._firsts, digests[:, 0]), len(self._order) - 1)
        rows = self._order[at]
        return np.where((self._digests[rows] == digests).all(axis=1), rows, -1)
