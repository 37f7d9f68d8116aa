"""What the readers of collections share: finding files, decoding lines, saying where a bad byte stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from telerank.errors import CollectionError, FormatError
from telerank.trec.files import numbered_bytes, open_bytes

WHOLE = "all"
"""The name of the one split of a collection that names none."""
PACKED = (".gz", ".xz")
_AFFIXES = re.compile(r"^(?:topics|queries|query|qrels?)(?:[._-]|$)|\.(?:txt|tsv|trec|xml|jsonl)$")
_BOM = b"\xef\xbb\xbf"
_COMPRESS = (".z", ".0z", ".1z", ".2z")


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1, without their ends; unpacked by the extension.

    Raises
    ------
    FormatError
        If bytes are not of that encoding: names file, line and byte.
    CollectionError
        If the encoding is unknown or does not hold ASCII (UTF-16).
    """
    check_encoding(encoding)
    for number, line in numbered_bytes(path):
        yield number, decode_line(line, path, number, encoding)


def decode_line(line: bytes, path: Path, number: int, encoding: str) -> str:
    """The text of one line (see :func:`read_lines`)."""
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


def check_packing(path: Path) -> None:
    """Refuse a file of ``compress``, as the TREC disks hold them, and say how to unpack it.

    Raises
    ------
    CollectionError
        If the name ends in ``.Z``, ``.z``, ``.0z``, ``.1z`` or ``.2z``.
    """
    if is_compressed(path):
        raise CollectionError(
            f"{path}: packed by compress (LZW), which is not read here; "
            f"unpack the folder once: gzip -d -r -S {path.suffix} {path.parent}"
        )


def is_compressed(path: Path) -> bool:
    """Whether the name says that ``compress`` packed the file."""
    return path.suffix.lower() in _COMPRESS


def plain_name(path: Path) -> str:
    """The file's name without an extension that only says how it is packed."""
    return path.stem if path.suffix in PACKED else path.name


def find_file(folder: Path, name: str) -> Path | None:
    """The file ``name`` of a folder, plain or packed, or none."""
    places = (folder / f"{name}{extension}" for extension in ("", *PACKED))
    return next((place for place in places if place.is_file()), None)


def group_by_split(topics: list[Path], qrels: list[Path]) -> tuple[dict[str, Path], dict[str, Path]]:
    """Topics and qrels files by the split that their names tell: ``topics.dl20.txt.gz`` is ``dl20``.

    A single pair belongs together, whatever it is called: where the names differ it is the split ``all``.

    Raises
    ------
    CollectionError
        If two files tell the same.
    """
    found = _told(topics), _told(qrels)
    if len(topics) == len(qrels) == 1 and found[0].keys() != found[1].keys():
        return {WHOLE: topics[0]}, {WHOLE: qrels[0]}
    return found


def _told(files: list[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in files:
        split = _AFFIXES.sub("", plain_name(file)) or WHOLE
        if split in found:
            raise CollectionError(
                f"{file}: a second file for the split {split!r}, beside {found[split].name}"
            )
        found[split] = file
    return found


def read_beginning(path: Path, size: int = 4096) -> str:
    """The first bytes of a file as text, for recognising its format; unreadable ones are replaced."""
    try:
        with open_bytes(path) as file:
            return file.read(size).removeprefix(_BOM).decode("utf-8", "replace")
    except (FormatError, OSError):  # whoever reads the file says what is wrong with it
        return ""
