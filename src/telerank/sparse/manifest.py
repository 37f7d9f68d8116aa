"""``manifest.json``: what an index is made of; replacing this one file is what commits a change.

Checksums of small files (16 MiB and less) are compared whenever an index is opened, sizes of all; ``verify``
compares every checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from telerank.errors import IndexDamaged, IndexFault
from telerank.types import Progress, silent

NAME = "manifest.json"
BESIDE = f"{NAME}.new"
FORMAT = 1
_SMALL = 16 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Part:
    """A file of a segment as it was written."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class SegmentEntry:
    """A segment: the counts that statistics need, and its files by name."""

    name: str
    documents: int
    nonempty: int
    tokens: int
    files: Mapping[str, Part]
    deleted: str | None = None
    deletions: int = 0


@dataclass(frozen=True)
class IndexManifest:
    """An index at one moment; ``generation`` grows with every commit.

    ``fingerprint`` is the analyzer's: by the same name another release of a stemmer may make other terms.
    """

    analyzer: str
    fingerprint: str
    segments: tuple[SegmentEntry, ...] = ()
    generation: int = 0
    built_with: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> IndexManifest:
        """The manifest of an index.

        Raises
        ------
        IndexFault
            where there is none, or a later format's.
        IndexDamaged
            where it cannot be read.
        """
        path = folder / NAME
        if not path.is_file():
            raise IndexFault(f"{folder}: no index here ({NAME} is missing)")
        try:
            raw = _checked(json.loads(path.read_bytes()))
            if raw["format"] == FORMAT:
                return cls(**{**raw, "segments": tuple(_entry(entry) for entry in raw["segments"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IndexDamaged(f"{path}: damaged ({error})") from error
        raise IndexFault(f"{path}: format {raw['format']}, this version reads format {FORMAT}")

    def write(self, folder: Path) -> None:
        """Commit: after this the index is what the manifest says, before it what it was."""
        raw = asdict(self)
        raw["crc32"] = zlib.crc32(_canonical(raw))
        beside = folder / BESIDE
        with beside.open("wb") as file:
            file.write(json.dumps(raw, indent=1, sort_keys=True).encode())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NAME)
        sync_folder(folder)

    def next(self, segments: tuple[SegmentEntry, ...]) -> IndexManifest:
        return replace(self, segments=segments, generation=self.generation + 1)


@cache
def versions() -> dict[str, str]:
    """Of what an index is made with."""
    made_with = ("telerank", "numpy", "numba", "PyStemmer")
    return {"python": python_version(), **{name: version(name) for name in made_with}}


def parts(folder: Path) -> dict[str, Part]:
    """The files of a finished segment with their checksums, each made durable on the way."""
    found = {path.name: part(path) for path in sorted(folder.iterdir())}
    sync_folder(folder)
    return found


def part(path: Path) -> Part:
    """A finished file with its checksum, made durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return Part(path.stat().st_size, _crc32(path))


def check(folder: Path, entry: SegmentEntry) -> None:
    """Compare sizes, and checksums of small files.

    Raises
    ------
    IndexDamaged
        naming the first file that is missing or is not what was written.
    """
    for path, part in _files(folder, entry):
        if not path.is_file():
            raise IndexDamaged(f"{path}: missing")
        size = path.stat().st_size
        if size != part.bytes:
            raise IndexDamaged(f"{path}: damaged ({size} bytes, {part.bytes} were written)")
        if size <= _SMALL and _crc32(path) != part.crc32:
            raise IndexDamaged(f"{path}: damaged (its checksum differs)")


def verify(folder: Path, entry: SegmentEntry, progress: Progress = silent) -> None:
    """Compare sizes and all checksums; raises as :func:`check` does."""
    check(folder, entry)
    done, total = 0, sum(part.bytes for part in entry.files.values())
    for path, part in _files(folder, entry):
        if part.bytes > _SMALL and _crc32(path) != part.crc32:
            raise IndexDamaged(f"{path}: damaged (its checksum differs)")
        done += part.bytes
        progress(f"verifying {entry.name}", done, total)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the system lets a folder be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _files(folder: Path, entry: SegmentEntry) -> Iterator[tuple[Path, Part]]:
    return ((folder / "segments" / entry.name / name, part) for name, part in entry.files.items())


def _entry(raw: dict[str, Any]) -> SegmentEntry:
    return SegmentEntry(**{**raw, "files": {name: Part(**part) for name, part in raw["files"].items()}})


def _checked(raw: dict[str, Any]) -> dict[str, Any]:
    """What stands beside the checksum, if that is right."""
    if raw.pop("crc32") != zlib.crc32(_canonical(raw)):
        raise ValueError("its checksum differs")
    return raw


def _canonical(raw: Mapping[str, Any]) -> bytes:
    return json.dumps(raw, sort_keys=True).encode()


def _crc32(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value
