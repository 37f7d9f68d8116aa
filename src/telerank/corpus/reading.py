"""Files of a collection as bytes or as lines of text: compression, encodings, and where a bad byte stands."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from telerank.errors import CollectionError, FormatError

_BOM = b"\xef\xbb\xbf"
_OPENERS: dict[str, Callable[[Path], object]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_DAMAGED = (EOFError, lzma.LZMAError, zlib.error, OSError)


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked by its extension (``.gz``, ``.xz``, ``.bz2``).

    Raises
    ------
    CollectionError
        for a file of ``compress`` (``.Z``, ``.z``, ``.0z``), as the TREC disks hold them.
    """
    if path.suffix.lower().endswith("z") and path.suffix.lower()[1:-1] in {"", "0", "1", "2"}:
        raise CollectionError(
            f"{path}: packed with compress (LZW), which telerank does not unpack; "
            f"once for all: gzip -S {path.suffix} -dr {path.parent}"
        )
    if path.suffix in _OPENERS:
        return cast("BinaryIO", _OPENERS[path.suffix](path))
    return path.open("rb")


def plain_name(path: Path) -> str:
    """The file's name without an extension that only says how it is packed."""
    return path.stem if path.suffix in _OPENERS else path.name


def find(folder: Path, name: str) -> Path | None:
    """The file ``name`` of a folder, plain or packed (``name.gz``, …), or none."""
    places = (folder / f"{name}{extension}" for extension in ("", *_OPENERS))
    return next((place for place in places if place.is_file()), None)


def byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """``(line number from 1, line without its end)``; a byte order mark is not part of the first line."""
    with open_bytes(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith(_BOM):
                    line = line[len(_BOM) :]
                yield number, line.rstrip(b"\r\n")
        except _DAMAGED as error:
            if getattr(error, "errno", None) is not None:  # the disk's fault, not the packing's
                raise
            raise FormatError(path, number + 1, "a whole file", f"damaged packing: {error}") from error


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """As :func:`byte_lines`, decoded; only from encodings that hold ASCII (not UTF-16).

    Raises
    ------
    FormatError
        where bytes are not of that encoding: names file, line and byte.
    """
    check_encoding(encoding)
    for number, line in byte_lines(path):
        yield number, decode(line, path, number, encoding)


def decode(line: bytes, path: Path, number: int, encoding: str) -> str:
    """The text of one line (see :func:`lines`)."""
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at place {error.start + 1} of the line"
        hint = f"{encoding} text (another encoding can be given, such as latin-1: --encoding)"
        raise FormatError(path, number, hint, byte) from error


def check_encoding(encoding: str) -> None:
    """Refuse, before anything is read, an encoding unknown or without a single-byte line end."""
    try:
        fits = "\n".encode(encoding) == b"\n"
    except LookupError as error:
        raise CollectionError(f"unknown encoding {encoding!r}") from error
    if not fits:
        raise CollectionError(
            f"encoding {encoding!r} has no single-byte line end: convert the files to UTF-8 first"
        )


def beginning(path: Path, size: int = 4096) -> str:
    """The first bytes of a file as text, for recognising its format; unreadable ones are replaced."""
    try:
        with open_bytes(path) as file:
            return file.read(size).removeprefix(_BOM).decode("utf-8", "replace")
    except (CollectionError, *_DAMAGED):
        return ""
