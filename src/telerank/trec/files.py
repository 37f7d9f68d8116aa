"""Text files, plain or packed, as every reader and writer of telerank opens them."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast

from telerank.errors import FormatError

_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_BOM = b"\xef\xbb\xbf"
_NOT_IN_AN_ID = re.compile("^\ufeff|[ \t\n\r\v\f\0]")  # what splits, cuts or hides a column for trec_eval


@contextmanager
def open_text(path: str | Path, mode: Literal["r", "w"] = "r", encoding: str = "utf-8") -> Iterator[TextIO]:
    r"""A text file, packed if its name ends in ``.gz`` or ``.xz``; ``-`` is standard input or output.

    Reading drops a leading byte order mark and breaks lines at ``\n`` alone, so that texts may hold
    other separators; :func:`numbered_lines` also removes the line ends, ``\r\n`` too. Writing goes to
    a file beside, which takes the name when the block ends well and vanishes when it does not.

    Raises
    ------
    FormatError
        If a file to read is not whole, not packed as its name says, or not in ``encoding``.
    OSError
        If the file cannot be opened or written.
    """
    if mode == "w":
        with _written(str(path)) as raw:
            text = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
            try:
                yield text
                text.flush()
            finally:
                _let_go(text)
        return
    sans_mark = "utf-8-sig" if encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else encoding
    with open_bytes(path) as raw:
        text = io.TextIOWrapper(raw, encoding=sans_mark, newline="\n")
        try:
            yield text
        except UnicodeDecodeError as error:
            raise FormatError(path, None, f"text in {encoding}", str(error)) from error
        finally:
            text.detach()


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a file to read, unpacked as its name says; ``-`` is standard input.

    Raises
    ------
    FormatError
        If a packed file is damaged.
    """
    name = str(path)
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(name, "rb") as file:  # noqa: PTH123
            # a buffer of our own makes lines at the speed of C
            yield cast("BinaryIO", io.BufferedReader(_unpacking(name, file), 1 << 17))
    except _DAMAGE as error:
        raise FormatError(path, None, f"a whole {Path(name).suffix} file", str(error)) from error


def numbered_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    r"""The lines of a text file with their numbers from 1, without the line ends (``\n`` or ``\r\n``).

    Lines of nothing but blanks are passed over; they count in the numbers.

    Raises
    ------
    FormatError
        If a line is not in ``encoding``, or a packed file is damaged.
    """
    for number, line in numbered_bytes(path):
        try:
            yield number, line.decode(encoding)
        except UnicodeDecodeError as error:
            raise FormatError(path, number, f"text in {encoding}", repr(line[:60])) from error


def numbered_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """:func:`numbered_lines` before decoding: for formats whose columns end at ASCII blanks only."""
    with open_bytes(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(_BOM)
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if line and not line.isspace():
                yield number, line


def check_id(name: str, what: str, where: str | Path, line: int | None = None) -> str:
    """``name``, if it can stand in a column of a TREC file.

    Raises
    ------
    FormatError
        If it is empty, or holds a blank or a NUL.
    """
    if not name or _NOT_IN_AN_ID.search(name):
        raise FormatError(where, line, f"a {what} that is not empty and holds no blank", name)
    return name


def _unpacking(name: str, file: BinaryIO) -> io.RawIOBase:
    match Path(name).suffix:
        case ".gz":
            stream: object = gzip.GzipFile(fileobj=file)
        case ".xz":
            stream = lzma.LZMAFile(file)  # noqa: SIM115 — the caller closes the file under it
        case _:
            stream = file
    return cast("io.RawIOBase", stream)


@contextmanager
def _written(name: str) -> Iterator[BinaryIO]:
    """Where bytes for the file ``name`` go: packed as its name says, published at a good end."""
    if name == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    target = os.path.realpath(name)
    if os.path.exists(target) and not os.path.isfile(target):  # noqa: PTH110, PTH113 — a pipe or a device
        with open(target, "wb") as device, _packing(name, device) as packed:  # noqa: PTH123
            yield packed
        return
    beside = f"{target}.{os.getpid()}.part"
    try:
        with _created(beside, name) as file, _packing(name, file) as packed:
            yield packed
        os.replace(beside, target)  # noqa: PTH105
    finally:
        Path(beside).unlink(missing_ok=True)


@contextmanager
def _packing(name: str, file: BinaryIO) -> Iterator[BinaryIO]:
    match Path(name).suffix:
        case ".gz":  # no name and no time within: the same text gives the same bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
                yield cast("BinaryIO", packed)
        case ".xz":
            with lzma.LZMAFile(file, "wb") as packed_xz:
                yield cast("BinaryIO", packed_xz)
        case _:
            yield file


def _created(beside: str, name: str) -> BinaryIO:
    try:
        return open(beside, "wb")  # noqa: PTH123 — the caller closes it
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error  # the name that the user gave


def _let_go(text: io.TextIOWrapper) -> None:
    """Part the wrapper from its stream, whose owner closes it."""
    with suppress(OSError):  # what could not be flushed has been told already
        text.detach()
