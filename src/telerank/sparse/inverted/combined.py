"""Several fields of a segment read together: of each posting the frequencies in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.sparse.inverted.lists import Counts, InvertedFile, Read, TermFile
from telerank.sparse.inverted.postings import Numbers

_HALF = 32


class CombinedFile(TermFile):
    """The postings of fields, joined when they are read: a document holds a term if one of its fields does.

    How many documents hold a term is known once it is read, so ``offsets`` give it the room of its postings
    in all fields, and ``ends`` are those of the terms that were read. Threads may share it: two that read the
    same term write the same numbers.
    """

    def __init__(self, files: Sequence[InvertedFile]) -> None:
        self.files, self.terms, self.documents = tuple(files), files[0].terms, files[0].documents
        self._ends = np.array(self.offsets[:-1])

    @cached_property
    def offsets(self) -> npt.NDArray[Any]:  # type: ignore[override]
        room = np.zeros(len(self.terms) + 1, np.int64)
        for file in self.files:
            room[1:][file.numbers] += np.diff(file.offsets)
        offsets = np.cumsum(room)
        offsets = offsets.astype(np.int32) if int(offsets[-1]) < 2**31 else offsets
        offsets.flags.writeable = False
        return offsets

    @property
    def ends(self) -> npt.NDArray[Any]:
        view = self._ends.view()
        view.flags.writeable = False  # as other arrays are: compiled code is made for each kind
        return view

    def find(self, term: str) -> int:
        number = self.terms.find(term)
        return number if number >= 0 and any(self._locate(number)) else -1

    def _locate(self, term: int) -> list[tuple[InvertedFile, int]]:
        """The fields that have a term, and its number there."""
        numbers = ((file, int(file.locate(np.array([term]))[0])) for file in self.files)
        return [(file, number) for file, number in numbers if number >= 0]

    def df(self, term: int) -> int:
        held = self._locate(term)
        return held[0][0].df(held[0][1]) if len(held) == 1 else len(self.read_rows(term))

    def term(self, number: int) -> str:
        return self.terms[number]

    def counts(self) -> Counts:
        df, cf = (np.zeros(len(self.terms), np.int64) for _ in range(2))
        for number in range(len(self.terms)):
            df[number], cf[number] = self.df(number), self.cf(number)
        return df, cf

    def cf(self, term: int) -> int:
        return sum(file.cf(number) for file, number in self._locate(term))

    def read(self, terms: Numbers) -> Read:
        keys, frequencies, fields = [], [], []
        for field, file in enumerate(self.files):
            numbers = file.locate(terms)
            here = np.flatnonzero(numbers >= 0)
            sizes, rows, tfs = file.read(numbers[here])
            keys.append(np.repeat(here, sizes) << _HALF | rows)
            frequencies.append(tfs)
            fields.append(np.full(len(rows), field))
        every = np.concatenate(keys)
        order = np.argsort(every, kind="stable")  # which merges what is sorted already
        every = every[order]
        is_first = np.ones(len(every), np.bool_)
        is_first[1:] = every[1:] != every[:-1]
        union = every[is_first]
        together = np.zeros((len(self.files), len(union)), np.int64)
        together[np.concatenate(fields)[order], np.cumsum(is_first) - 1] = np.concatenate(frequencies)[order]
        sizes = np.bincount(union >> _HALF, minlength=len(terms))
        self._ends[terms] = self.offsets[terms] + sizes
        return sizes, (union & (1 << _HALF) - 1).astype(np.int32), together

    def lengths_of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.stack([file.lengths[rows] for file in self.files])
