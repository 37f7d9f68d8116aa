"""The terms of an inverted file, in order, and their numbers."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from telerank.sparse.inverted.postings import map_whole_numbers, save_narrow
from telerank.text.steps import fold_accents

_BLOB, _STARTS = "terms.bin", "terms.starts.npy"


class Terms:
    """The distinct terms of a segment in the order of their UTF-8 bytes; a term's number is its position.

    They are memory-mapped: a look-up reads about twenty positions of the file.
    """

    def __init__(self, folder: Path, prefix: str = "") -> None:
        blob = folder / f"{prefix}{_BLOB}"
        with blob.open("rb") as file:
            empty = not blob.stat().st_size
            self._blob = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._starts = memoryview(map_whole_numbers(folder / f"{prefix}{_STARTS}"))  # type: ignore[arg-type]

    def find(self, term: str) -> int:
        """The number of a term; -1 if no document holds it."""
        encoded = _encode(term)
        number = bisect_left(range(len(self)), encoded, key=self._bytes)
        return number if number < len(self) and self._bytes(number) == encoded else -1

    def starting(self, prefix: str) -> range:
        """The numbers of the terms that begin so."""
        encoded = _encode(prefix)
        ends = (bisect_left(range(len(self)), key, key=self._bytes) for key in (encoded, encoded + b"\xff"))
        return range(*ends)

    def find_accented(self, bare: str) -> list[str]:
        """The terms that are ``bare`` without their accents, and differ from it."""
        order = self._accented
        first = bisect_left(order, bare, key=lambda number: fold_accents(self[number]))
        return list(takewhile(lambda term: fold_accents(term) == bare, map(self.__getitem__, order[first:])))

    @cached_property
    def _accented(self) -> npt.NDArray[np.int32]:
        """The numbers of the terms with accents, in the order of what they are without."""
        blob = np.frombuffer(self._blob, np.uint8)
        starts = np.asarray(self._starts)[:-1]
        numbers = np.flatnonzero(np.logical_or.reduceat(blob > 127, starts)) if len(starts) else starts
        bare = {number: fold_accents(self[number]) for number in numbers.tolist()}
        accented = [number for number, term in bare.items() if term != self[number]]
        return np.array(sorted(accented, key=bare.__getitem__), np.int32)

    @property
    def listed(self) -> list[str]:
        """All terms, in their order."""
        return [self[number] for number in range(len(self))]

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes(number).decode("utf-8", "surrogatepass")

    def _bytes(self, number: int) -> bytes:
        return self._blob[self._starts[number] : self._starts[number + 1]]


def write_terms(folder: Path, ordered: Iterable[str], prefix: str = "") -> None:
    """Write terms, which must be in order (strings sort as their UTF-8 bytes do)."""
    starts = [0]
    with (folder / f"{prefix}{_BLOB}").open("wb", buffering=1 << 20) as file:
        for term in ordered:
            starts.append(starts[-1] + file.write(_encode(term)))
    save_narrow(folder / f"{prefix}{_STARTS}", np.array(starts))


def _encode(term: str) -> bytes:
    return term.encode("utf-8", "surrogatepass")  # a lone surrogate in a text is a term like any other
