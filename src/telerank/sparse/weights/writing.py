"""From vectors of terms to the inverted file of their weights in a segment.

Vectors come in any order. They are written to two files one after the other, and read again in the order of
the rows, so that memory is bounded: 12 bytes for each document, the vocabulary, and some million postings.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import DocumentError, MissingWeights, agree, count_noun
from telerank.sparse.build import fold
from telerank.sparse.inverted.lists import WEIGHTS
from telerank.sparse.runs import Run
from telerank.sparse.weights.entry import WeightsEntry
from telerank.text import Analyzer
from telerank.types import Progress

_PIECE = 4 << 20  # postings in memory
_BITS_OF_LARGEST = 11  # of the largest weight in steps
_MOST_BITS = 30
_LARGEST_LENGTH = 2**31


class WeightSource(Protocol):
    """What has vectors of terms for documents."""

    @property
    def entry(self) -> WeightsEntry:
        """What the manifest of an index says of them, but for the bits."""

    def weigh(self, docs: Docstore, analyzer: Analyzer, take: Take, progress: Progress) -> None:
        """Give ``take`` the vectors of documents; ``analyzer`` is that of the index."""


# Called with the row of a document, and its weights by term; False if it has a vector already.
Take = Callable[[int, Mapping[str, float]], bool]


def choose_bits(largest: float, *, whole: bool) -> int:
    """The bits behind the point that weights keep: none if they are whole numbers.

    Else so many that the largest takes 11 bits: a weight is moved by at most 1/2048 of the largest.
    """
    if whole or not largest:
        return 0
    return min(max(_BITS_OF_LARGEST - 1 - int(np.floor(np.log2(largest))), 0), _MOST_BITS)


def write_weights(
    folder: Path, entry: WeightsEntry, source: WeightSource, analyzer: Analyzer, progress: Progress
) -> WeightsEntry:
    """Write the weights of a segment whose folder has the documents; the entry with the bits that they keep.

    ``entry`` is that of the index, or one without bits, which the first weights choose. Warnings
    (MissingWeights) count the documents that get none, and those whose weights are all rounded to 0.
    """
    docs = Docstore(folder)
    with WeightsWriter(folder, len(docs)) as writer:
        source.weigh(docs, analyzer, writer.take, progress)
    if writer.lacking:
        lacking = count_noun(writer.lacking, "document")
        note = f"{lacking} of {len(docs):,} {agree(writer.lacking, 'has', 'have')} no weights of terms"
        warnings.warn(note, MissingWeights, stacklevel=2)
    entry = replace(entry, bits=writer.write(entry.bits, progress))
    if writer.lost:
        lost = f"{count_noun(writer.lost, 'document')} of {len(docs):,} {agree(writer.lost, 'has', 'have')}"
        step = f"half a step of {entry.step:g}, which the first weights chose"
        note = f"{lost} no weight of at least {step}: all are rounded to 0 (index all documents again)"
        warnings.warn(note, MissingWeights, stacklevel=2)
    return entry


class WeightsWriter(AbstractContextManager["WeightsWriter"]):
    """Writes the weights of a segment, whose folder has the documents already.

    Vectors are taken within the context, and written behind it.
    """

    def __init__(self, folder: Path, documents: int) -> None:
        self._folder, self._scratch = folder, folder / "weights"
        self._scratch.mkdir()
        self._starts, self._counts = np.zeros(documents, np.int64), np.full(documents, -1, np.int32)
        self._terms, self._weights = ((self._scratch / name).open("wb") for name in ("terms", "values"))
        self._numbers: dict[str, int] = {}
        self._size, self._largest, self._whole = 0, 0.0, True
        self.lost = 0  # documents with weights, none of which is kept

    def take(self, row: int, weights: Mapping[str, float]) -> bool:
        """Keep the vector of a document; False if it has one."""
        if self._counts[row] >= 0:
            return False
        number, known = self._numbers.setdefault, self._numbers
        values = np.fromiter(weights.values(), np.float64, len(weights))
        terms = np.fromiter((number(term, len(known)) for term in weights), np.int32, len(weights))
        self._terms.write(terms.tobytes())
        self._weights.write(values.tobytes())
        self._starts[row], self._counts[row] = self._size, len(values)
        self._size += len(values)
        self._largest = max(self._largest, float(values.max(initial=0.0)))
        self._whole = self._whole and bool((values == np.floor(values)).all())
        return True

    def __exit__(self, *_: object) -> None:
        for file in (self._terms, self._weights):
            file.close()

    @property
    def lacking(self) -> int:
        """The number of documents without a vector."""
        return int((self._counts < 0).sum())

    def write(self, bits: int | None, progress: Progress) -> int | None:
        """Write the inverted file, and return the bits behind the point that weights keep.

        ``bits`` None chooses them (:func:`choose_bits`); without any weight it stays None. Weights that are
        rounded to 0 are left out.

        Raises
        ------
        DocumentError
            If the weights of a document are 2^31 steps and more.
        """
        known = bits is not None or self._largest > 0
        bits = choose_bits(self._largest, whole=self._whole) if bits is None else bits
        stretches = partial(self._read_stretches, bits)
        lengths = np.zeros(len(self._counts), np.int64)
        for _, _, rows, steps in stretches():
            lengths += np.bincount(rows, steps, len(lengths)).astype(np.int64)
        if lengths.max(initial=0) >= _LARGEST_LENGTH:
            row = int(lengths.argmax())
            docno = Docstore(self._folder).docnos[row]
            raise DocumentError(f"document {docno!r}: its weights are too large: {lengths[row] / 2**bits:g}")
        self.lost = int(((self._counts > 0) & (lengths == 0)).sum())
        np.save(self._folder / f"{WEIGHTS}lengths.npy", lengths.astype(np.int32))
        runs = {WEIGHTS: lambda: ((0, run) for run in map(_make_run, stretches()))}
        fold(self._folder, len(lengths), [list(self._numbers)], runs, progress)
        shutil.rmtree(self._scratch)
        return bits if known else None

    def _read_stretches(self, bits: int) -> Iterator[Stretch]:
        """The postings of some documents at a time, in the order of the rows, without those of 0 steps."""
        if not self._size:
            return
        files = ("terms", np.int32), ("values", np.float64)
        terms, weights = (np.memmap(self._scratch / name, kind, "r") for name, kind in files)
        sizes = np.maximum(self._counts, 0).astype(np.int64)
        ends, first = np.cumsum(sizes), 0
        while first < len(sizes):
            before = int(ends[first] - sizes[first])
            last = max(int(np.searchsorted(ends, before + _PIECE, "right")), first + 1)
            part = sizes[first:last]
            begins = np.repeat(self._starts[first:last] - (ends[first:last] - part - before), part)
            chosen = begins + np.arange(part.sum())
            steps = np.rint(weights[chosen] * 2.0**bits).astype(np.int64)
            kept = steps > 0
            rows = np.repeat(np.arange(first, last), part)
            yield last, terms[chosen][kept], rows[kept], steps[kept]
            first = last


# The row behind the last, and the term, row and steps of each posting (P,).
Stretch = tuple[int, npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _make_run(stretch: Stretch) -> Run:
    _, terms, rows, steps = stretch
    order = np.argsort(terms, kind="stable")
    ids, counts = np.unique(terms[order], return_counts=True)
    return Run(ids.astype(np.int64), counts, rows[order].astype(np.int32), steps[order].astype(np.int32))
