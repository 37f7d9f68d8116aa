"""The distinct terms of a segment in the order of their UTF-8 bytes; a term's number is its position."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from telerank.sparse.arrays import map_array

BLOB, STARTS = "terms.bin", "terms.starts.npy"
FILES = (BLOB, STARTS)
_REMEMBERED = 1 << 17


class Terms:
    """Memory-mapped: a look-up reads about twenty positions of the file, or a table of earlier look-ups."""

    def __init__(self, folder: Path) -> None:
        with (folder / BLOB).open("rb") as file:
            empty = not (folder / BLOB).stat().st_size
            self._blob = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = memoryview(map_array(folder / STARTS, "q"))  # type: ignore[arg-type]
        self._known: dict[str, int] = {}

    def find(self, term: str) -> int:
        """The number of a term; -1 if no document holds it."""
        known = self._known.get(term)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            known = self._known[term] = self._search(_encode(term))
        return known

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes(number).decode("utf-8", "surrogatepass")

    def _search(self, term: bytes) -> int:
        number = bisect_left(range(len(self)), term, key=self._bytes)
        return number if number < len(self) and self._bytes(number) == term else -1

    def _bytes(self, number: int) -> bytes:
        return self._blob[self._starts[number] : self._starts[number + 1]]


def write_terms(folder: Path, ordered: Iterable[str]) -> None:
    """Write terms, which must be in order (strings sort as their UTF-8 bytes do)."""
    starts = [0]
    with (folder / BLOB).open("wb", buffering=1 << 20) as file:
        for term in ordered:
            starts.append(starts[-1] + file.write(_encode(term)))
    np.save(folder / STARTS, np.array(starts, dtype=np.int64))


def _encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # a lone surrogate in a text is a term like any other
