r"""The docnos of n documents, memory-mapped: row to docno, docno to row, and their sort order.

======================  =======================================================================
``docnos.bin``          UTF-8, each docno followed by ``\n``, in the order of the rows
``docnos.offsets.npy``  n + 1 offsets into ``docnos.bin`` (int32; int64 from 2 GiB on); or one number: the
                        bytes that each docno takes there, those behind it being ``\n``
``docnos.order.npy``    uint32, the rows in ascending order of docno
``docnos.rank.npy``     uint32, the position of each row in that order
======================  =======================================================================

Docnos take equally many bytes if these are not more than lines and offsets: they are then fetched from memory
once, not twice. Writing 10 M docnos takes 350 MB at the end, when they are sorted (35 bytes a document,
including the mapped file), and almost nothing before; reading takes the system's file cache only.
"""

from __future__ import annotations

import mmap
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from telerank.compiled import cold_start, compiled
from telerank.errors import DocumentError, IndexDamaged
from telerank.stored import FolderReader, load_npy
from telerank.types import PASSAGE, whole_docno

BLOB, OFFSETS, ORDER, RANK = "docnos.bin", "docnos.offsets.npy", "docnos.order.npy", "docnos.rank.npy"
Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
FILES = (BLOB, OFFSETS, ORDER, RANK)
_PADDED = "docnos.padded"  # becomes the first
_REFUSED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_FENCE = 1024
_CHUNK = 16  # bytes of a line copied at once
_LINE = 40  # reading a line in Python takes as long as this many elements of an array


class FolderWriter(ABC):
    """Writes files of a folder, streaming; a context manager that leaves no file if it fails."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def discard(self) -> None:
        """Remove the files written so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.close()
        finally:
            self.discard()


class DocnosWriter(FolderWriter):
    """Writes the docnos of a folder; ``at_once`` bounds the bytes searched and docnos compared at a time."""

    def __init__(self, folder: Path, *, at_once: int = 1 << 20) -> None:
        self._folder = folder
        self._at_once = at_once
        self._count = 0
        self._file = (folder / _part(BLOB)).open("wb", buffering=1 << 20)

    def add(self, docno: str) -> int:
        """Add a docno and return its row; DocumentError if it is not valid (see :func:`check_docno`)."""
        check_docno(docno, self._count + 1)
        self._file.write(docno.encode() + b"\n")
        self._count += 1
        return self._count - 1

    def close(self) -> None:
        """Sort the docnos and rename the files to their final names; DocumentError if a docno comes twice."""
        self._file.close()
        blob = np.frombuffer(_bytes(self._folder / _part(BLOB)), np.uint8)
        offsets = _offsets(blob, self._count, self._at_once)
        order = _sort_rows(blob, offsets, self._at_once)
        rank = np.empty(self._count, np.uint32)
        for start in range(0, self._count, self._at_once):  # in parts: indexing widens uint32
            part = order[start : start + self._at_once]
            rank[part] = np.arange(start, start + len(part), dtype=np.uint32)
        width = int(np.diff(offsets).max(initial=0))
        if width * self._count <= len(blob) + offsets.nbytes:
            self._pad(blob, offsets, width)
            offsets = np.array([width])
        for name, array in ((OFFSETS, offsets), (ORDER, order), (RANK, rank)):
            with (self._folder / _part(name)).open("wb") as file:
                np.save(file, array)
        for name in FILES:
            (self._folder / _part(name)).replace(self._folder / name)

    def _pad(self, blob: npt.NDArray[np.uint8], offsets: Offsets, width: int) -> None:
        """Write the docnos anew with ``width`` bytes each."""
        padded = self._folder / _part(_PADDED)
        at_once = max(self._at_once // max(width, 1), 1)
        with padded.open("wb") as file:
            for start in range(0, self._count, at_once):
                part = offsets[start : start + at_once + 1]
                lines = np.full((len(part) - 1, width), ord("\n"), np.uint8)
                lines[np.arange(width) < np.diff(part)[:, None]] = blob[part[0] : part[-1]]
                file.write(lines.data)
        padded.replace(self._folder / _part(BLOB))

    def discard(self) -> None:
        self._file.close()
        for name in (*FILES, _PADDED):
            (self._folder / _part(name)).unlink(missing_ok=True)

    def __len__(self) -> int:
        return self._count


def check_docno(docno: str, number: int) -> None:
    """Check that a docno has no blank, control character or lone surrogate; ``number`` counts from 1."""
    if docno.isalnum():
        return
    if not docno:
        raise DocumentError(f"document {number}: its docno is empty")
    if invalid := _REFUSED.search(docno):
        raise DocumentError(
            f"document {number}: its docno {docno!r} contains {invalid[0]!r}: "
            "a docno has no blanks, control characters or surrogates"
        )


def check_text(text: str, whose: str) -> None:
    """Check that a text can be encoded in UTF-8; otherwise the message says how to repair it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X} at character {error.start + 1}"
        raise DocumentError(
            f"{whose} contains a lone surrogate ({half}), which is not a character; "
            "repair it: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')"
        ) from error


class Docnos(FolderReader):
    """The docnos of a folder; threads may share it, and it is pickled as its path.

    IndexDamaged if a file is missing, or the files do not match.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._bytes = _bytes(_existing(self.folder / BLOB))
        self._blob = np.frombuffer(self._bytes, np.uint8)
        self._offsets = _mapped(self.folder / OFFSETS)
        self.order: npt.NDArray[np.uint32] = _mapped(self.folder / ORDER)
        self.rank: npt.NDArray[np.uint32] = _mapped(self.folder / RANK)
        count = len(self.order)
        self._width = int(self._offsets[0]) if len(self._offsets) == 1 else 0
        is_whole = len(self._offsets) in (1, count + 1) and len(self._blob) == (
            count * self._width if len(self._offsets) == 1 else self._offsets[-1]
        )
        if len(self.rank) != count or not is_whole:
            raise IndexDamaged(f"{self.folder}: {', '.join(FILES)} do not match")
        self._padded = self._blob.view(f"V{self._width}") if self._width else None
        self._starts = memoryview(self._offsets)  # type: ignore[arg-type]
        self._order = memoryview(self.order)  # type: ignore[arg-type]

    def row(self, docno: str) -> int:
        """The row of a docno; KeyError if there is no such document."""
        name = docno.encode("utf-8", "surrogatepass")
        position = self._position(name)
        if position == len(self) or self._docno_bytes(row := self._order[position]) != name:
            raise KeyError(docno)
        return int(row)

    def _position(self, name: bytes) -> int:
        """Where a docno stands in the order of all, or would."""
        fence = bisect_left(self._fences, name)  # among every 1024th docno, kept in memory
        begin, end = max(fence - 1, 0) * _FENCE, min(fence * _FENCE + 1, len(self))
        return bisect_left(self._order, name, begin, end, key=self._docno_bytes)

    def ranks(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The positions (n,) of rows (n,) in the order of all docnos."""
        return self.rank[rows].astype(np.int64)

    def take(self, rows: npt.ArrayLike) -> list[str]:
        """The docnos of rows, in the order of the rows; IndexError if a row does not exist."""
        numbers = np.asarray(rows)
        if not len(numbers):
            return []
        if numbers.dtype.kind != "u" and numbers.min() < 0:
            raise self._no_rows(numbers)
        if self._padded is not None:
            try:
                return str(self._padded.take(numbers).data, "utf-8").split()
            except IndexError:
                raise self._no_rows(numbers) from None
        numbers = np.array(numbers, dtype=np.int64)  # a copy: one type of array for the kernel
        if cold_start.covers(_LINE * len(numbers)):
            return [self[row] for row in numbers.tolist()]
        lines = gather(self._blob, self._offsets, numbers)
        if not len(lines):
            raise self._no_rows(numbers)
        return str(lines.data, "utf-8").split("\n")

    def _no_rows(self, rows: npt.NDArray[Any]) -> IndexError:
        return IndexError(f"rows {rows.min()} to {rows.max()} of {len(self)} documents")

    def of_file(self, docno: str) -> list[str]:
        """The docnos of the passages of a file by its docno, and its own, in the order of the rows."""
        rows = self.starting(f"{docno}{PASSAGE}")
        with suppress(KeyError):
            rows.append(self.row(docno))
        return [name for name in self.take(sorted(rows)) if docno in (name, whole_docno(name))]

    def files_and_docnos(self) -> Iterator[str]:
        """The docnos, and before that of the first passage of a file its own."""
        return with_files(self)

    def starting(self, prefix: str) -> list[int]:
        """The rows of the docnos that begin with a text, in ascending order."""
        start = prefix.encode("utf-8", "surrogatepass")
        later = (int(self._order[position]) for position in range(self._position(start), len(self)))
        return sorted(takewhile(lambda row: self._docno_bytes(row).startswith(start), later))

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} documents")
        return self._docno_bytes(row).decode()

    def __contains__(self, docno: str) -> bool:
        try:
            self.row(docno)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def _fences(self) -> list[bytes]:
        return [self._docno_bytes(row) for row in self._order[::_FENCE]]

    def _docno_bytes(self, row: int) -> bytes:
        if self._width:
            return self._bytes[row * self._width : (row + 1) * self._width].rstrip(b"\n")
        return self._bytes[self._starts[row] : self._starts[row + 1] - 1]


def with_files(docnos: Iterable[str]) -> Iterator[str]:
    """Docnos, and before that of the first passage of a file its own."""
    before = ""
    for docno in docnos:
        if (file := whole_docno(docno)) not in (docno, before):
            yield file
        before = file
        yield docno


def _part(name: str) -> str:
    return f"{name}.part"


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise IndexDamaged(f"{path}: missing")
    return path


def _bytes(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        if not path.stat().st_size:  # an empty file cannot be mapped
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _mapped(path: Path) -> npt.NDArray[Any]:
    try:
        return np.asarray(load_npy(_existing(path), mmap_mode="r"))
    except ValueError as error:
        raise IndexDamaged(f"{path}: {error}") from error


def _offsets(blob: npt.NDArray[np.uint8], count: int, at_once: int) -> Offsets:
    """The offset of each line of the file, then the file's length."""
    offsets: Offsets = np.zeros(count + 1, np.int64) if len(blob) >= 2**31 else np.zeros(count + 1, np.int32)
    row = 1
    for start in range(0, len(blob), at_once):
        ends = np.flatnonzero(blob[start : start + at_once] == ord("\n"))
        offsets[row : row + len(ends)] = ends + (start + 1)
        row += len(ends)
    return offsets


def _sort_rows(blob: npt.NDArray[np.uint8], offsets: Offsets, at_once: int) -> npt.NDArray[np.uint32]:
    """The rows sorted by docno, since bytes of UTF-8 sort as code points do.

    Line ends are included: they are less than any byte of a docno, so a prefix still sorts first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.binary() if offsets.dtype == np.int32 else pa.large_binary()
    docnos = pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(blob)])
    order = pc.array_sort_indices(docnos)
    for start in range(0, len(order) - 1, at_once):
        near = docnos.take(order.slice(start, at_once + 1))
        same = pc.equal(near.slice(1), near.slice(0, len(near) - 1))
        if pc.any(same).as_py():
            position = start + same.index(pa.scalar(True)).as_py()
            first, second = order[position].as_py(), order[position + 1].as_py()
            docno = docnos[first].as_py()[:-1].decode()
            raise DocumentError(f"docno {docno!r} comes twice: documents {first + 1} and {second + 1}")
    return np.asarray(order.to_numpy(), dtype=np.uint32)


@compiled
def gather(
    blob: npt.NDArray[np.uint8], offsets: npt.NDArray[np.signedinteger], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Join the lines of ``rows``, the last without its line end; an empty array if a row does not exist."""
    begins, ends = np.empty(len(rows), np.uint64), np.empty(len(rows), np.uint64)
    total, touched = 0, np.uint8(0)
    for i in range(len(rows)):
        if rows[i] >= len(offsets) - 1:
            return np.empty(0, np.uint8)
        begins[i], ends[i] = offsets[rows[i]], offsets[rows[i] + 1]
        total += offsets[rows[i] + 1] - offsets[rows[i]]
    # reading all offsets, then a byte of all lines overlaps fetches: one by one takes three times as long
    for begin in begins:
        touched |= blob[begin]
    joined = np.empty(total + _CHUNK, np.uint8)
    joined[0] = touched  # used, so that the compiler keeps the reads
    target = np.uint64(0)
    for i in range(len(rows)):
        source, size = begins[i], ends[i] - begins[i]
        if ends[i] + np.uint64(_CHUNK) > np.uint64(len(blob)):
            for k in range(size):
                joined[target + k] = blob[source + k]
        else:  # whole chunks, which are copied at once; the next line begins where this one ends
            for first in range(np.uint64(0), size, np.uint64(_CHUNK)):
                for k in range(first, first + np.uint64(_CHUNK)):
                    joined[target + k] = blob[source + k]
        target += size
    return joined[: total - 1]
