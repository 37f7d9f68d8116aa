"""Finding the copies in the segments of an index, of all documents or after a change: see :mod:`.copies`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import Docnos
from telerank.sparse.copies import (
    AT_ONCE,
    BAND_COUNT,
    BANDS,
    KEYS,
    Keys,
    Marks,
    Signatures,
    are_similar,
    band_columns,
    compute_band_keys,
    map_bands,
    map_signatures,
)
from telerank.sparse.index import SEGMENTS, IndexManifest, SegmentEntry
from telerank.stored import map_npy

EXACT, NEAR = 1, 2
_BEFORE = 32  # documents of a band that each is compared with
_MOST = 0.25  # of all documents: if more are to be compared again, all are

Rows: TypeAlias = npt.NDArray[np.int64]
Kinds: TypeAlias = npt.NDArray[np.uint8]
Pairs: TypeAlias = npt.NDArray[np.int64]  # (n, 2): a document, and a near copy of it behind it


@dataclass(frozen=True)
class CopySource:
    """A segment: its folder, which of its documents are present, its docnos by row.

    ``was_present`` and ``kinds`` are those of the state before, of which the kinds are known, if they are.
    """

    folder: Path
    present: Marks
    docnos: Docnos
    was_present: Marks | None = None
    kinds: Kinds | None = None


@dataclass(frozen=True)
class FoundCopies:
    """Of each document of each segment whether it is an exact (1) or a near copy (2) of another."""

    kinds: tuple[Kinds, ...]

    @property
    def exact(self) -> int:
        return sum(int((own == EXACT).sum()) for own in self.kinds)

    @property
    def near(self) -> int:
        return sum(int((own == NEAR).sum()) for own in self.kinds)


def find_copies(sources: Sequence[CopySource], *, near: bool) -> FoundCopies:
    """The copies among the documents of segments, all of which are compared."""
    pool = _Pool(sources, near=near)
    kinds = np.zeros(len(pool), np.uint8)
    present = np.flatnonzero(pool.present)
    kinds[_exact_copies(pool, [present[own] for own in _equal(pool.keys(0, present))])] = EXACT
    if near:
        numbers = np.flatnonzero(pool.present & (kinds != EXACT))
        bands = range(1, 1 + BAND_COUNT)
        groups = [numbers[own] for band in bands for own in _equal(pool.keys(band, numbers))]
        kinds[_near_copies(pool, _similar_pairs(pool, groups))] = NEAR
    return FoundCopies(pool.by_source(kinds))


def update_copies(sources: Sequence[CopySource], *, near: bool) -> FoundCopies | None:
    """The same after a change; None if too much has changed, or it is not known what was.

    Segments that were there before, and are no more, are among the sources, without present documents.
    """
    if not all((source.folder / BANDS).is_file() for source in sources):
        return None
    if any(source.was_present is None or source.kinds is None for source in sources):
        return None
    pool = _Pool(sources, near=near)
    kinds = np.where(pool.present, pool.kinds, 0).astype(np.uint8)
    changed = np.flatnonzero(pool.present != pool.was_present)
    if len(changed) > _MOST * len(pool) + _BEFORE:
        return None
    groups = [own for own in pool.find(0, pool.keys(0, changed), pool.present) if len(own)]
    equal = np.concatenate([np.empty(0, np.int64), *groups])
    exact = np.zeros(len(pool), np.bool_)
    exact[_exact_copies(pool, groups)] = True
    flipped = equal[exact[equal] != (kinds[equal] == EXACT)]
    kinds[flipped] = np.where(exact[flipped], EXACT, 0)
    if near:
        may_be = pool.present & (kinds != EXACT)
        compared = _connected(pool, np.union1d(changed, flipped), may_be)
        if compared is None:
            return None
        inside, pairs = compared
        kinds[inside] = 0
        kinds[_near_copies(pool, pairs)] = NEAR
    return FoundCopies(pool.by_source(kinds))


def open_copy_sources(folder: Path, before: IndexManifest, now: IndexManifest) -> list[CopySource]:
    """The segments of an index, and behind them those that were there before alone."""
    entries = {entry.name: entry for entry in before.segments}
    names = {entry.name for entry in now.segments}
    gone = [entry for name, entry in entries.items() if name not in names]
    return [
        _open_source(folder / SEGMENTS / entry.name, entries.get(entry.name), after)
        for entry, after in [*((entry, entry) for entry in now.segments), *((entry, None) for entry in gone)]
    ]


def _open_source(folder: Path, before: SegmentEntry | None, now: SegmentEntry | None) -> CopySource:
    docnos = Docnos(folder)
    none = np.zeros(len(docnos), np.bool_)
    present, was_present = (
        none if entry is None else _present(folder, entry, none) for entry in (now, before)
    )
    if before is None:
        return CopySource(folder, present, docnos, none, none.astype(np.uint8))
    kinds = None if before.kinds is None else np.array(map_npy(folder / before.kinds, np.uint8, none.shape))
    return CopySource(folder, present, docnos, was_present, kinds)


def _present(folder: Path, entry: SegmentEntry, none: Marks) -> Marks:
    return ~none if entry.deleted is None else ~map_npy(folder / entry.deleted, "?", none.shape)


class _Pool:
    """The documents of segments, numbered in their order, with those that are not present."""

    def __init__(self, sources: Sequence[CopySource], *, near: bool) -> None:
        self._sources, self._near = sources, near
        self._ends = np.cumsum([0, *(len(source.present) for source in sources)])
        self.present: Marks = np.concatenate([source.present for source in sources])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @cached_property
    def was_present(self) -> Marks:
        return np.concatenate([np.asarray(source.was_present) for source in self._sources])

    @cached_property
    def kinds(self) -> Kinds:
        return np.concatenate([np.asarray(source.kinds) for source in self._sources])

    def docnos(self, numbers: Rows) -> list[str]:
        owners = np.searchsorted(self._ends, numbers, "right") - 1
        rows = numbers - self._ends[owners]
        return [
            self._sources[owner].docnos[row]
            for owner, row in zip(owners.tolist(), rows.tolist(), strict=True)
        ]

    def signatures(self, numbers: Rows) -> Signatures:
        """Those of documents (n, 128)."""
        return self._gather(self._signatures, numbers)

    def keys(self, band: int, numbers: Rows) -> Keys:
        """The keys of the texts of documents (n,), or of a band of them."""
        if band == 0:
            return self._gather(self._keys, numbers)
        columns = [own[:, band_columns(band)] for own in self._signatures]
        starts = range(0, len(numbers), AT_ONCE)
        parts = (self._gather(columns, numbers[start : start + AT_ONCE]) for start in starts)
        return np.concatenate([np.empty(0, np.uint64), *map(compute_band_keys, parts)])

    def find(self, band: int, keys: Keys, marks: Marks) -> list[Rows]:
        """For each distinct key those of the documents that have it and are marked."""
        keys = np.unique(keys)
        groups: list[list[Rows]] = [[] for _ in keys]
        for start, (ordered, rows) in zip(self._ends, self._bands, strict=False):
            first, last = (np.searchsorted(ordered[band], keys, side) for side in ("left", "right"))
            for number in np.flatnonzero(first < last):
                own = rows[band, first[number] : last[number]]
                groups[number].append(start + own.astype(np.int64))
        joined = (np.concatenate([np.empty(0, np.int64), *group]) for group in groups)
        return [numbers[marks[numbers]] for numbers in joined]

    def by_source(self, values: Kinds) -> tuple[Kinds, ...]:
        """Values of the documents as values of the rows of each segment."""
        return tuple(values[start:end] for start, end in pairwise(self._ends))

    @cached_property
    def _keys(self) -> list[Keys]:
        return [map_npy(source.folder / KEYS, np.uint64) for source in self._sources]

    @cached_property
    def _signatures(self) -> list[Signatures]:
        return [map_signatures(source.folder, len(source.present)) for source in self._sources]

    @cached_property
    def _bands(self) -> list[tuple[Keys, npt.NDArray[np.int32]]]:
        return [map_bands(own.folder, len(own.present), near=self._near) for own in self._sources]

    def _gather(self, arrays: Sequence[npt.NDArray[Any]], numbers: Rows) -> npt.NDArray[Any]:
        """The rows of documents in the arrays of the segments."""
        values = np.empty((len(numbers), *arrays[0].shape[1:]), arrays[0].dtype)
        for array, (start, end) in zip(arrays, pairwise(self._ends), strict=True):
            inside = (numbers >= start) & (numbers < end)
            if inside.any():
                values[inside] = array[numbers[inside] - start]
        return values


def _equal(keys: Keys) -> Iterator[Rows]:
    """The positions of each key that comes several times."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    for number in np.flatnonzero(np.diff(bounds) > 1):
        yield order[bounds[number] : bounds[number + 1]]


def _exact_copies(pool: _Pool, groups: Sequence[Rows]) -> Rows:
    """Of groups of equal documents all but the first ones."""
    copies = [np.empty(0, np.int64)]
    for group in groups:
        names = pool.docnos(group)
        copies.append(np.delete(group, names.index(min(names))))
    return np.concatenate(copies)


def _similar_pairs(pool: _Pool, groups: Sequence[Rows]) -> Pairs:
    """The near copies among documents that share a band, each behind the other in the order of docnos."""
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return np.empty((0, 2), np.int64)
    involved = np.unique(np.concatenate(groups))
    by_docno = _order_by_docno(pool, involved)
    rank = np.empty(len(involved), np.int64)
    rank[by_docno] = np.arange(len(involved))
    within = (_pair(np.sort(rank[np.searchsorted(involved, own)]), len(involved)) for own in groups)
    later, earlier = np.divmod(np.unique(np.concatenate([*within])), len(involved))
    pairs = involved[by_docno[np.column_stack((earlier, later))]]
    parts = (pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE))
    return np.concatenate(
        [part[are_similar(pool.signatures(part[:, 0]), pool.signatures(part[:, 1]))] for part in parts]
    )


def _pair(ranks: Rows, count: int) -> Rows:
    """Each document with those before it: the later one's rank times ``count``, plus the earlier one's."""
    steps = range(1, min(len(ranks), _BEFORE + 1))
    return np.concatenate([ranks[step:] * count + ranks[:-step] for step in steps])


def _order_by_docno(pool: _Pool, numbers: Rows) -> Rows:
    names = pool.docnos(numbers)
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)


def _near_copies(pool: _Pool, pairs: Pairs) -> list[int]:
    """Those that are left out if each document that stays leaves out its near copies behind it."""
    involved = np.unique(pairs)
    by_docno = _order_by_docno(pool, involved)
    rank = np.empty(len(involved), np.int64)
    rank[by_docno] = np.arange(len(involved))
    ranks = rank[np.searchsorted(involved, pairs)]
    left: set[int] = set()
    for before, after in pairs[np.lexsort((ranks[:, 0], ranks[:, 1]))].tolist():
        if before not in left:
            left.add(after)
    return list(left)


def _connected(pool: _Pool, changed: Rows, may_be: Marks) -> tuple[Rows, Pairs] | None:
    """The documents whose near copies may be others after a change, with all near copies among them.

    They share a band with one that changed, or are near copies of such; ``may_be`` marks those that may be
    near copies at all. None if they are too many.
    """
    inside, known = np.zeros(len(pool), np.bool_), [np.empty(0, np.uint64)] * (1 + BAND_COUNT)
    pairs = np.empty((0, 2), np.int64)
    new = changed
    while len(new):
        groups: list[Rows] = []
        for band in range(1, 1 + BAND_COUNT):
            keys = np.setdiff1d(pool.keys(band, new), known[band])
            known[band] = np.union1d(known[band], keys)
            groups += pool.find(band, keys, may_be)
        pairs = np.concatenate([pairs, _similar_pairs(pool, groups)])
        if new is changed:  # each pair of theirs may be one that is new, or is no more
            near = np.concatenate([np.empty(0, np.int64), *groups])
        else:
            near = pairs[inside[pairs].any(axis=1)].ravel()
        new = np.unique(near[~inside[near]])
        inside[new] = True
        if inside.sum() > _MOST * len(pool) + _BEFORE:
            return None
    return np.flatnonzero(inside), np.unique(pairs[inside[pairs].all(axis=1)], axis=0)
