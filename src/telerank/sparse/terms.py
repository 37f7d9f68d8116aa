"""The distinct terms of a segment in the order of their UTF-8 bytes; a term's number is its place there."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from telerank.sparse.arrays import mapped

BLOB, STARTS = "terms.bin", "terms.starts.npy"
FILES = (BLOB, STARTS)
_REMEMBERED = 1 << 17


class Terms:
    """Memory-mapped: a look-up reads some twenty places of the file, or a table of terms seen before."""

    def __init__(self, folder: Path) -> None:
        with (folder / BLOB).open("rb") as file:
            empty = not (folder / BLOB).stat().st_size
            self._blob = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = memoryview(mapped(folder / STARTS, "q"))  # type: ignore[arg-type]
        self._known: dict[str, int] = {}

    def number(self, term: str) -> int:
        """The number of a term; -1 where no document holds it."""
        known = self._known.get(term)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            known = self._known[term] = self._search(_encoded(term))
        return known

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes(number).decode("utf-8", "surrogatepass")

    def _search(self, wanted: bytes) -> int:
        place = bisect_left(range(len(self)), wanted, key=self._bytes)
        return place if place < len(self) and self._bytes(place) == wanted else -1

    def _bytes(self, number: int) -> bytes:
        return self._blob[self._starts[number] : self._starts[number + 1]]


def write_terms(folder: Path, ordered: Iterable[str]) -> None:
    """Write terms, given in their order (that of strings is that of their UTF-8 bytes)."""
    starts = [0]
    with (folder / BLOB).open("wb", buffering=1 << 20) as file:
        for term in ordered:
            starts.append(starts[-1] + file.write(_encoded(term)))
    np.save(folder / STARTS, np.array(starts, dtype=np.int64))


def _encoded(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # a lone surrogate in a text is a term like any other
