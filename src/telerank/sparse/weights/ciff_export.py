"""Writing an index as CIFF (:mod:`.ciff`): its counts, or its weights of terms in whole steps.

Documents that are deleted or left out as copies are not written; the others are numbered in their order. The
same index gives the same bytes.
"""

from __future__ import annotations

import heapq
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.drafts import open_draft
from telerank.errors import DocumentError
from telerank.sparse.index import SparseIndex
from telerank.sparse.inverted.lists import InvertedFile
from telerank.sparse.weights.ciff import BYTES, EIGHT_BYTES, POSTINGS, VARINT
from telerank.sparse.weights.retriever import require_weights
from telerank.trec import open_packer
from telerank.types import Progress, silent

_REPORTED = 1000  # terms or documents between two calls of progress


@dataclass(frozen=True)
class CiffCounts:
    """What was written: documents, terms, postings."""

    documents: int
    terms: int
    postings: int


def export_ciff(
    index: SparseIndex, path: str | Path, *, weights: bool = False, progress: Progress = silent
) -> CiffCounts:
    """Write the counts of an index, or its ``weights`` of terms, compressed if named ``.gz`` or ``.xz``.

    Postings lists are first written to a file without a name in the folder of ``path``. Memory: a postings
    list, and 12 bytes for each document.

    Raises
    ------
    IndexFault
        If it has no weights of terms.
    DocumentError
        If it has no document, or a term that cannot be written as UTF-8.
    """
    files: list[InvertedFile] = list(index.segments)
    what = f"counts, analyzer {index.manifest.analyzer}"
    if weights:
        what = f"weights of terms, {require_weights(index).description}"
        files = [segment.weights for segment in index.segments if segment.weights is not None]
    if not len(index):
        raise DocumentError(f"{index.folder}: there is no document to export")
    rows = _number_rows(index)
    lengths = np.concatenate(
        [file.lengths[own >= 0].astype(np.int64) for file, own in zip(files, rows, strict=True)]
    )
    target = Path(path)
    with open_draft(target) as file, TemporaryFile(dir=target.absolute().parent) as scratch:
        terms = postings = 0
        for df, message in _make_lists(files, rows):
            _write_message(scratch, message)
            terms, postings = terms + 1, postings + df
            if terms % _REPORTED == 0:
                progress("writing postings", terms, None)
        scratch.seek(0)
        with open_packer(file, target) as packed:
            _write_message(packed, _make_header(terms, lengths, f"telerank: {what}"))
            shutil.copyfileobj(scratch, packed, 1 << 20)
            for number, docno in enumerate(_list_docnos(index)):
                record = _field(1, number) + _field(2, docno) + _field(3, int(lengths[number]))
                _write_message(packed, record)
                if number % _REPORTED == 0:
                    progress("writing documents", number, len(lengths))
    return CiffCounts(len(lengths), terms, postings)


def _number_rows(index: SparseIndex) -> list[npt.NDArray[np.int64]]:
    """For each segment the numbers of its documents, -1 of those that are not written."""
    rows, first = [], 0
    for segment in index.segments:
        kept = ~segment.deleted if len(segment.deleted) else np.ones(len(segment), np.bool_)
        rows.append(np.where(kept, first + np.cumsum(kept) - 1, -1))
        first += int(kept.sum())
    return rows


def _list_docnos(index: SparseIndex) -> Iterator[str]:
    for segment in index.segments:
        yield from (docno for row, docno in enumerate(segment.docnos) if not segment.is_deleted(row))


def _make_lists(
    files: Sequence[InvertedFile], rows: Sequence[npt.NDArray[np.int64]]
) -> Iterator[tuple[int, bytes]]:
    """The number of postings of each term, in the order of terms, and its message."""
    streams = (_list_terms(file, owner) for owner, file in enumerate(files))
    for term, holders in groupby(heapq.merge(*streams), key=itemgetter(0)):
        docids, tfs = _read_postings(files, rows, holders)
        if len(docids):
            gaps = np.diff(docids, prepend=0)
            head = _field(1, term) + _field(2, len(docids)) + _field(3, int(tfs.sum()))
            yield len(docids), head + _encode_postings(gaps, tfs).tobytes()


def _list_terms(file: InvertedFile, owner: int) -> Iterator[tuple[str, int, int]]:
    return ((file.term(number), owner, number) for number in range(len(file.offsets) - 1))


def _read_postings(
    files: Sequence[InvertedFile],
    rows: Sequence[npt.NDArray[np.int64]],
    holders: Iterable[tuple[str, int, int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    docids, tfs = [], []
    for _, owner, number in holders:
        _, held, counts = files[owner].read(np.array([number]))
        numbers = rows[owner][held]
        docids.append(numbers[numbers >= 0])
        tfs.append(counts[numbers >= 0].astype(np.int64))
    return np.concatenate(docids), np.concatenate(tfs)


def _make_header(terms: int, lengths: npt.NDArray[np.int64], description: str) -> bytes:
    documents, total = len(lengths), int(lengths.sum())
    counts = (1, terms, documents, terms, documents, total)
    fields = b"".join(_field(number, count) for number, count in enumerate(counts, 1))
    average = _varint(7 << 3 | EIGHT_BYTES) + struct.pack("<d", total / documents)
    return fields + average + _field(8, description)


def _write_message(file: BinaryIO, message: bytes) -> None:
    file.write(_varint(len(message)))
    file.write(message)


def _field(number: int, value: int | str) -> bytes:
    """A field of a message; none for 0, which stands for one that is not there."""
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value) if value else b""
    try:
        content = value.encode()
    except UnicodeEncodeError as error:  # a lone surrogate
        raise DocumentError(f"the term {value!r:.60} cannot be written as UTF-8") from error
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


@compiled
def _encode_postings(gaps: Any, tfs: Any) -> Any:
    """The fields of the postings of a list (bytes,)."""
    content, at = np.empty(14 * len(gaps), np.uint8), 0
    for number in range(len(gaps)):
        content[at], start = POSTINGS, at
        at += 2
        for key, field in ((8, gaps[number]), (16, tfs[number])):
            if field:
                content[at], value = key, field
                at += 1
                while value > 127:
                    content[at] = value & 127 | 128
                    value >>= 7
                    at += 1
                content[at] = value
                at += 1
        content[start + 1] = at - start - 2
    return content[:at].copy()
