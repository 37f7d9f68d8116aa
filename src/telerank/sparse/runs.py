"""Runs: the postings of a stretch of documents, inverted in memory and kept on disk until folding.

What stands between two ASCII characters that no token holds (blanks, brackets, a full stop outside a number)
can be analysed by itself. So texts are cut there, equal pieces are found by hashing, and each distinct piece
("surface"), such as "word", "l’État", "(“" or "naïve…", is analysed once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.compiled import compiled
from telerank.stored import load_npy
from telerank.text import Analyzer
from telerank.text.steps import BELONGS, JOINS

_GAP = b"\n"  # between texts; separates tokens for every tokenizer


@dataclass(frozen=True, eq=False)
class Run:
    """Postings by term: ``counts[i]`` of them belong to the term ``ids[i]`` of a vocabulary.

    ``positions`` has where the occurrences are in their documents, or nothing if that is not kept.
    """

    ids: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int32]
    tfs: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first posting of each term."""
        return np.cumsum(self.counts) - self.counts

    @property
    def occurrences(self) -> npt.NDArray[np.int64]:
        """How often each term occurs."""
        return np.add.reduceat(self.tfs, self.starts, dtype=np.int64)

    def save(self, path: Path, lengths: npt.NDArray[np.int32]) -> None:
        """Write the run, and the lengths of its documents."""
        with path.open("wb") as file:
            for values in (*vars(self).values(), lengths):
                np.save(file, values)

    @classmethod
    def load(cls, path: Path) -> tuple[Run, npt.NDArray[np.int32]]:
        with path.open("rb") as file:
            *values, lengths = (load_npy(file) for _ in range(6))
        return cls(*values), lengths


class RunMaker:
    """Analyses and inverts stretches of documents; numbers terms in the order of their first occurrence.

    Memory: the vocabulary, the terms of ``most_surfaces`` (by default 150 MB), about 40 bytes for each piece
    of the current stretch.
    """

    def __init__(self, analyzer: Analyzer, *, positions: bool = False, most_surfaces: int = 1 << 20) -> None:
        self._has_positions = positions
        self._classes = analyzer.classes
        self._surfaces = _Surfaces(analyzer, most_surfaces)
        self._runs = 0

    @property
    def vocabulary(self) -> list[str]:
        """The terms by their numbers."""
        return list(self._surfaces.of_term)

    def make(self, texts: Sequence[str], first_row: int, path: Path) -> None:
        """Write the run of the texts of documents ``first_row``, ``first_row`` + 1, …"""
        self._surfaces.make_room(everywhere=self._classes is None)
        if self._classes is None:  # each text is one piece, and seldom comes again
            distinct = [text.encode("utf-8", "surrogatepass") for text in texts]
            which, text_ends = np.arange(len(texts), dtype=np.int32), np.arange(1, len(texts) + 1)
        else:
            distinct, which, text_ends = find_surfaces(texts, self._classes)
        numbers = np.fromiter(map(self._surfaces.__getitem__, distinct), np.int32, len(distinct))
        which = numbers[which]
        analysed = np.array(self._surfaces.terms), np.array(self._surfaces.ends)
        size = len(self._surfaces.of_term)
        lengths, counts, rows, tfs = _invert(which, text_ends, analysed, first_row, size)
        ids = np.flatnonzero(counts)
        run = Run(ids, counts[ids], rows, tfs)
        if self._has_positions:
            occurrences = np.zeros(size, np.int64)
            occurrences[ids] = run.occurrences
            run = replace(run, positions=_locate(which, text_ends, analysed, occurrences))
        run.save(path, lengths)
        self._runs += 1

    def finish(self) -> tuple[list[list[str]], list[int]]:
        """The vocabularies, of which there is one, and for each run in order the number of its vocabulary."""
        return [self.vocabulary], [0] * self._runs


class _Surfaces(dict[bytes, int]):
    """The numbers of surfaces; one is analysed when it is first looked up.

    The numbers of their terms are in ``terms``, one surface after the other, each up to its own of ``ends``:
    a stretch is then inverted without a loop over its surfaces.
    """

    def __init__(self, analyzer: Analyzer, most: int) -> None:
        self._analyzer, self._most = analyzer, most
        self.terms, self.ends = array("i"), array("q")
        self.of_term: dict[str, int] = {}

    def make_room(self, *, everywhere: bool) -> None:
        """Forget surfaces if there are many, or all; their terms keep their numbers."""
        if everywhere or len(self) >= self._most:
            self.clear()
            del self.terms[:], self.ends[:]

    def __missing__(self, surface: bytes) -> int:
        number, known = self.of_term.setdefault, self.of_term
        for term in self._analyzer(surface.decode("utf-8", "surrogatepass")):
            self.terms.append(number(term, len(known)))
        self.ends.append(len(self.terms))
        return self.setdefault(surface, len(self))


@compiled
def _invert(
    which: Any, text_ends: Any, analysed: Any, first_row: int, size: int
) -> tuple[Any, Any, Any, Any]:
    """Lengths (N,), postings of each term (size,), and the postings' rows and frequencies, by term.

    ``which`` (P,) are the surfaces of the pieces; ``analysed`` are the terms of all surfaces and their ends.
    """
    terms, ends = analysed
    lengths, counts = np.zeros(len(text_ends), np.int32), np.zeros(size, np.int64)
    last = np.full(size, -1, np.int64)
    start = 0
    for doc in range(len(text_ends)):
        for piece in range(start, text_ends[doc]):
            surface = which[piece]
            for i in range(ends[surface - 1] if surface else 0, ends[surface]):
                lengths[doc] += 1
                if last[terms[i]] != doc:
                    last[terms[i]] = doc
                    counts[terms[i]] += 1
        start = text_ends[doc]
    positions = np.cumsum(counts) - counts
    rows, tfs = np.empty(counts.sum(), np.int32), np.zeros(counts.sum(), np.int32)
    last[:] = -1
    start = 0
    for doc in range(len(text_ends)):
        for piece in range(start, text_ends[doc]):
            surface = which[piece]
            for i in range(ends[surface - 1] if surface else 0, ends[surface]):
                term = terms[i]
                if last[term] != doc:
                    last[term] = doc
                    rows[positions[term]] = first_row + doc
                    positions[term] += 1
                tfs[positions[term] - 1] += 1
        start = text_ends[doc]
    return lengths, counts, rows, tfs


@compiled
def _locate(which: Any, text_ends: Any, analysed: Any, occurrences: Any) -> Any:
    """The positions of all occurrences of each term, whose numbers (size,) are known, in their documents."""
    terms, ends = analysed
    following = np.cumsum(occurrences) - occurrences
    positions = np.empty(occurrences.sum(), np.int32)
    start = 0
    for doc in range(len(text_ends)):
        position = 0
        for piece in range(start, text_ends[doc]):
            surface = which[piece]
            for i in range(ends[surface - 1] if surface else 0, ends[surface]):
                positions[following[terms[i]]] = position
                following[terms[i]] += 1
                position += 1
        start = text_ends[doc]
    return positions


def find_surfaces(
    texts: Sequence[str], classes: bytes
) -> tuple[list[bytes], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The distinct pieces, the number of each piece among them (P,), and the end of each text's pieces (N,).

    ``classes`` says for each byte whether it separates, belongs to a piece, or joins two bytes that do.
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    joined = _GAP.join(encoded) + _GAP
    text_ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1)
    data = np.frombuffer(joined, np.uint8)
    starts, ends, hashes, piece_ends = _cut(data, text_ends, np.frombuffer(classes, np.uint8))
    which, firsts = _number_pieces(data, starts, ends, hashes)
    spans = zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True)
    return [joined[start:end] for start, end in spans], which, piece_ends


@compiled
def _cut(data: Any, text_ends: Any, classes: Any) -> tuple[Any, Any, Any, Any]:
    """Start, end and hash (FNV-1a) of each piece, and the number of pieces up to each text's end."""
    most = (len(data) + 1) >> 1
    starts, ends = np.empty(most, np.int32), np.empty(most, np.int32)
    hashes = np.empty(most, np.uint64)
    piece_ends = np.empty(len(text_ends), np.int64)
    count, i = 0, 0
    for text in range(len(text_ends)):
        while i < text_ends[text]:
            if classes[data[i]] != BELONGS:
                i += 1
                continue
            starts[count] = i
            value = np.uint64(14695981039346656037)
            while True:  # the gap after the last text ends the last piece
                kind = classes[data[i]]
                if kind != BELONGS and not (kind == JOINS and classes[data[i + 1]] == BELONGS):
                    break
                value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
                i += 1
            ends[count], hashes[count] = i, value
            count += 1
        piece_ends[text] = count
    return starts[:count], ends[:count], hashes[:count], piece_ends


@compiled
def _number_pieces(data: Any, starts: Any, ends: Any, hashes: Any) -> tuple[Any, Any]:
    """The number of each piece among the distinct ones, and the first piece of each number."""
    slots = np.full(1 << 14, -1, np.int32)  # grows with the distinct pieces: a small table stays in the cache
    which, firsts = np.empty(len(starts), np.int32), np.empty(len(starts), np.int32)
    known = np.empty(len(starts), np.uint64)  # hashes of distinct pieces
    count = 0
    for piece in range(len(starts)):
        mask = np.uint64(len(slots) - 1)
        slot = hashes[piece] & mask
        while slots[slot] >= 0:
            if known[slots[slot]] == hashes[piece] and _equal(data, starts, ends, firsts[slots[slot]], piece):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot], firsts[count], known[count] = count, piece, hashes[piece]
            count += 1
        which[piece] = slots[slot]
        if 2 * count > len(slots):
            slots = _grow(known[:count], 4 * len(slots))
    return which, firsts[:count]


@compiled
def _grow(known: Any, size: int) -> Any:
    slots, mask = np.full(size, -1, np.int32), np.uint64(size - 1)
    for number in range(len(known)):
        slot = known[number] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = number
    return slots


@compiled
def _equal(data: Any, starts: Any, ends: Any, first: int, second: int) -> Any:
    length = ends[first] - starts[first]
    if ends[second] - starts[second] != length:
        return False
    for i in range(length):  # noqa: SIM110 — numba does not compile generators
        if data[starts[first] + i] != data[starts[second] + i]:
            return False
    return True
