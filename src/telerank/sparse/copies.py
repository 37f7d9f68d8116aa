"""Copies among the documents of an index: equal texts, and nearly equal ones.

Texts are equal if they are so in lower case and with single blanks; their keys are 64 bits of BLAKE2b. Two
are nearly equal if their sets of three consecutive words have an estimated Jaccard similarity of 0.8 or more:
128 values of MinHash (Broder 1997; the package datasketch), compared if one of 21 bands of six is equal,
which finds 99.8 % of the pairs of that similarity. In a band each document is compared with the 32 before it,
in the order of docnos.

Of copies the document stays whose docno sorts first, so that it does not depend on how an index became what
it is. A near copy is one of a document that stays.

==================  ===============================================================
``keys.npy``        uint64 (documents,): the key of each text
``signatures.bin``  uint32 (documents, 128): the values of MinHash, if near copies are looked for
==================  ===============================================================

Memory: 40 bytes a document to find copies, and 200 for each that is, or may be, one; the signatures are
memory-mapped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import numpy.typing as npt

from telerank.corpus.docnos import Docnos
from telerank.errors import IndexDamaged, MissingExtra
from telerank.stored import map_npy

KEYS, SIGNATURES = "keys.npy", "signatures.bin"
_VALUES, _BAND, _BANDS = 128, 6, 21
_SIMILAR = 0.8
_WORDS = 3
_BEFORE = 32  # documents of a band that each is compared with
_AT_ONCE = 1 << 16  # rows or pairs

Rows: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Signatures: TypeAlias = npt.NDArray[np.uint32]


class CopyKeys:
    """The keys of the texts of a segment, which are written into its folder; with ``near`` signatures, too.

    Raises
    ------
    MissingExtra
        If near copies are looked for and datasketch is not installed.
    """

    def __init__(self, folder: Path, *, near: bool) -> None:
        if near and find_spec("datasketch") is None:
            raise MissingExtra("datasketch", "copies")
        self._folder, self._keys = folder, array("Q")
        self._sign = _make_signer() if near else None
        self._file = (folder / SIGNATURES).open("wb") if near else None

    def add(self, text: str) -> None:
        words = text.casefold().split()
        digest = blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        self._keys.append(int.from_bytes(digest, "little"))
        if self._sign is not None and self._file is not None:
            self._file.write(self._sign(words).tobytes())

    def close(self) -> None:
        """Write what is left."""
        np.save(self._folder / KEYS, np.frombuffer(self._keys, np.uint64))
        if self._file is not None:
            self._file.close()


def _make_signer() -> Callable[[list[str]], Signatures]:
    """What makes the values of MinHash (128,) from words; of fewer than three the words are the set."""
    from datasketch import MinHash

    settings: dict[str, Any] = {"num_perm": _VALUES, "seed": 1, "scheme": "affine32", "hashfunc": crc32}
    permutations = MinHash(**settings).permutations

    def sign(words: list[str]) -> Signatures:
        minhash = MinHash(**settings, permutations=permutations)
        parts = range(max(len(words) - _WORDS + 1, 1))
        minhash.update_batch(
            {" ".join(words[n : n + _WORDS]).encode("utf-8", "surrogatepass") for n in parts}
        )
        return np.asarray(minhash.hashvalues, np.uint32)

    return sign


def merge_keys(folder: Path, folders: Sequence[Path], kept: Sequence[Marks]) -> None:
    """Write the keys and signatures of the rows that are kept of several segments, if these have them."""
    if all((source / KEYS).is_file() for source in folders):
        keys = [map_npy(source / KEYS, np.uint64)[rows] for source, rows in zip(folders, kept, strict=True)]
        np.save(folder / KEYS, np.concatenate(keys))
    if all((source / SIGNATURES).is_file() for source in folders):
        with (folder / SIGNATURES).open("wb") as file:
            for source, marks in zip(folders, kept, strict=True):
                signatures = _map_signatures(source, len(marks))
                rows = np.flatnonzero(marks)
                for start in range(0, len(rows), _AT_ONCE):
                    file.write(signatures[rows[start : start + _AT_ONCE]].tobytes())


def _map_signatures(folder: Path, documents: int) -> Signatures:
    try:
        return np.memmap(folder / SIGNATURES, np.uint32, "r", shape=(documents, _VALUES))
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"{folder / SIGNATURES}: damaged ({error})") from error


@dataclass(frozen=True)
class CopySource:
    """The folder of a segment, which of its documents are present, and its docnos by row."""

    folder: Path
    present: Marks
    docnos: Docnos


@dataclass(frozen=True)
class FoundCopies:
    """How many documents are exact and near copies of others, and which: marks for each segment."""

    exact: int
    near: int
    marks: tuple[Marks, ...]


def find_copies(sources: Sequence[CopySource], *, near: bool) -> FoundCopies:
    """The copies among the documents of segments."""
    pool = _Pool(sources)
    exact = np.zeros(len(pool), np.bool_)
    for group in _equal(pool.keys):
        names = pool.docnos(group)
        exact[group] = True
        exact[group[names.index(min(names))]] = False
    alike = np.zeros(len(pool), np.bool_)
    if near:
        alike[_find_near(pool, np.flatnonzero(~exact))] = True
    return FoundCopies(int(exact.sum()), int(alike.sum()), tuple(pool.by_source(exact | alike)))


class _Pool:
    """The present documents of segments, numbered in their order."""

    def __init__(self, sources: Sequence[CopySource]) -> None:
        self._sources = sources
        self._rows = [np.flatnonzero(source.present) for source in sources]
        self._ends = np.cumsum([0, *map(len, self._rows)])
        keys = (map_npy(source.folder / KEYS, np.uint64) for source in sources)
        self.keys = np.concatenate([own[rows] for own, rows in zip(keys, self._rows, strict=True)])
        self._signatures: list[Signatures] = []

    def __len__(self) -> int:
        return len(self.keys)

    def docnos(self, numbers: Rows) -> list[str]:
        names = []
        for number in numbers.tolist():
            source = int(np.searchsorted(self._ends, number, "right")) - 1
            row = self._rows[source][number - self._ends[source]]
            names.append(self._sources[source].docnos[int(row)])
        return names

    def signatures(self, numbers: Rows, columns: slice = slice(_VALUES)) -> Signatures:
        """Those of documents (n, 128), or some columns of them."""
        if not self._signatures:
            self._signatures = [_map_signatures(own.folder, len(own.present)) for own in self._sources]
        values = np.empty((len(numbers), columns.stop - (columns.start or 0)), np.uint32)
        for source, (start, end) in enumerate(pairwise(self._ends)):
            inside = (numbers >= start) & (numbers < end)
            if inside.any():
                rows = self._rows[source][numbers[inside] - start]
                values[inside] = self._signatures[source][:, columns][rows]
        return values

    def by_source(self, marks: Marks) -> Iterator[Marks]:
        """Marks of the documents as marks of the rows of each segment."""
        for source, rows, start in zip(self._sources, self._rows, self._ends, strict=False):
            own = np.zeros(len(source.present), np.bool_)
            own[rows] = marks[start : start + len(rows)]
            yield own


def _equal(keys: npt.NDArray[np.uint64]) -> Iterator[Rows]:
    """The positions of each key that comes several times."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    for number in np.flatnonzero(np.diff(bounds) > 1):
        yield order[bounds[number] : bounds[number + 1]]


def _find_near(pool: _Pool, numbers: Rows) -> list[int]:
    """Those of the documents that are near copies of one that stays."""
    groups = [numbers[group] for band in range(_BANDS) for group in _equal(_band_keys(pool, numbers, band))]
    if not groups:
        return []
    involved = np.unique(np.concatenate(groups))
    names = pool.docnos(involved)
    by_docno = np.array(sorted(range(len(names)), key=names.__getitem__))
    rank = np.empty(len(names), np.int64)
    rank[by_docno] = np.arange(len(names))
    pairs = np.unique(
        np.concatenate([_pairs(rank[np.searchsorted(involved, own)], len(names)) for own in groups])
    )
    later, earlier = np.divmod(pairs, len(names))  # sorted by the later document, then by the earlier one
    left: set[int] = set()
    for start in range(0, len(pairs), _AT_ONCE):
        parts = [ranks[start : start + _AT_ONCE] for ranks in (earlier, later)]
        first, second = (pool.signatures(involved[by_docno[own]]) for own in parts)
        similar = (first == second).mean(axis=1) >= _SIMILAR
        for before, after in zip(parts[0][similar].tolist(), parts[1][similar].tolist(), strict=True):
            if before not in left:
                left.add(after)
    return [int(involved[by_docno[own]]) for own in left]


def _band_keys(pool: _Pool, numbers: Rows, band: int) -> npt.NDArray[np.uint64]:
    """A number for the values of a band of each document; equal values have equal ones."""
    keys = np.zeros(len(numbers), np.uint64)
    for start in range(0, len(numbers), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        values = pool.signatures(numbers[part], slice(band * _BAND, (band + 1) * _BAND))
        for column in values.T:
            keys[part] = (keys[part] ^ column) * np.uint64(0x9E3779B97F4A7C15)
            keys[part] ^= keys[part] >> np.uint64(29)
    return keys


def _pairs(ranks: Rows, count: int) -> Rows:
    """Each document with those before it: the later one's rank times ``count``, plus the earlier one's."""
    ordered = np.sort(ranks)
    steps = range(1, min(len(ordered), _BEFORE + 1))
    return np.concatenate([ordered[step:] * count + ordered[:-step] for step in steps])
