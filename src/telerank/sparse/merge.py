"""Merging segments: postings are folded again, texts are copied, deleted documents are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import DocstoreWriter
from telerank.errors import DocumentError
from telerank.sparse.build import SegmentCounts
from telerank.sparse.fold import fold
from telerank.sparse.runs import Run
from telerank.sparse.segment import Segment
from telerank.types import Progress, silent

_PIECE = 4 << 20  # postings read at a time


def merge_segments(folder: Path, segments: Sequence[Segment], progress: Progress = silent) -> SegmentCounts:
    """Write a segment of all documents that are not deleted, in their order."""
    new_rows, total = [], 0
    for segment in segments:
        kept = np.ones(len(segment), np.bool_) if not len(segment.deleted) else ~segment.deleted
        new_rows.append(np.where(kept, np.cumsum(kept) - 1 + total, -1))
        total += int(kept.sum())
    if not total:
        raise DocumentError("every document is deleted: nothing would be left")
    _copy_texts(folder, segments, total, progress)
    pairs = list(zip(segments, new_rows, strict=True))
    lengths = np.concatenate([np.asarray(segment.lengths)[rows >= 0] for segment, rows in pairs])
    np.save(folder / "lengths.npy", lengths)

    def runs() -> Iterator[tuple[int, Run]]:
        return ((i, run) for i, (segment, rows) in enumerate(pairs) for run in _read_runs(segment, rows))

    fold(
        folder,
        [[segment.terms[i] for i in range(len(segment.terms))] for segment in segments],
        runs,
        progress,
    )
    return SegmentCounts(total, int((lengths > 0).sum()), int(lengths.sum(dtype=np.int64)))


def _copy_texts(folder: Path, segments: Sequence[Segment], total: int, progress: Progress) -> None:
    with DocstoreWriter(folder) as store:
        for segment in segments:
            for row, doc in enumerate(segment.docs):
                if not segment.is_deleted(row):
                    store.add(doc)
                    if len(store) % 1000 == 0:
                        progress("copying texts", len(store), total)


def _read_runs(segment: Segment, new_rows: npt.NDArray[np.int64]) -> Iterator[Run]:
    """The postings of a segment by stretches of terms, with the new rows of their documents."""
    offsets = segment.offsets
    first = 0
    while first < len(segment.terms):
        last = max(int(np.searchsorted(offsets, offsets[first] + _PIECE, "right")) - 1, first + 1)
        start, end = offsets[first], offsets[last]
        rows = new_rows[segment.rows[start:end]]
        tfs = segment.frequencies_between(int(start), int(end))
        owner = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
        kept = rows >= 0
        ids, counts = np.unique(owner[kept], return_counts=True)
        yield Run(ids, counts, rows[kept].astype(np.int32), tfs[kept].astype(np.int32))
        first = last
