"""``manifest.json`` of a folder of vectors: what made them, and the shards with their checksums."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from telerank.errors import IndexDamaged, IndexFault

NAME = "manifest.json"
KIND = "vectors"
FORMAT = 1
_SMALL = 1 << 20  # bytes of a file whose checksum is compared whenever vectors are opened
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Part:
    """A file as it was written."""

    bytes: int
    crc32: int


@dataclass(frozen=True)
class VectorShardEntry:
    """Consecutive rows; ``texts`` is the checksum of the documents that they were made from."""

    rows: int
    texts: int
    files: Mapping[str, Part]


@dataclass(frozen=True)
class VectorManifest:
    """A folder of vectors at one moment; ``finished`` says whether all documents are there.

    ``fingerprint`` is the identity of everything that decides the model's vectors, ``settings`` what a reader
    may want to know of it. ``source`` is the state of the index whose documents these are, if of an index.
    ``cut`` counts the documents that were longer than the model reads.
    """

    dimension: int
    dtype: str
    model: str
    fingerprint: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    collection: str = ""
    source: str = ""
    shards: tuple[VectorShardEntry, ...] = ()
    docnos: Mapping[str, Part] = field(default_factory=dict)
    cut: int = 0
    finished: bool = False
    kind: str = KIND
    format: int = FORMAT

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @classmethod
    def read(cls, folder: Path) -> VectorManifest:
        """The manifest of a folder.

        Raises
        ------
        IndexFault
            where there is none, another thing's, or a later format's.
        IndexDamaged
            where it cannot be read.
        """
        path = folder / NAME
        if not is_vectors(folder):
            raise IndexFault(f"{folder}: no vectors here (make them: telerank encode)")
        try:
            raw = _checked(json.loads(path.read_bytes()))
            if raw["format"] == FORMAT:
                shards = tuple(
                    VectorShardEntry(**{**one, "files": _parts(one["files"])}) for one in raw["shards"]
                )
                return cls(**{**raw, "shards": shards, "docnos": _parts(raw["docnos"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IndexDamaged(f"{path}: damaged ({error})") from error
        raise IndexFault(f"{path}: format {raw['format']}, this version reads format {FORMAT}")

    def write(self, folder: Path) -> None:
        """Replace the manifest; what it names is durable before."""
        raw = asdict(self)
        raw["crc32"] = zlib.crc32(_canonical(raw))
        beside = folder / f"{NAME}.new"
        with beside.open("wb") as file:
            file.write(json.dumps(raw, indent=1, sort_keys=True).encode())
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NAME)
        sync_folder(folder)


def is_vectors(folder: Path) -> bool:
    """Whether a folder says of itself that it holds vectors."""
    try:
        # a damaged manifest is to be told of, not taken for another thing's
        return f'"kind": "{KIND}"' in (folder / NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def part(path: Path) -> Part:
    """A finished file with its checksum, made durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return Part(path.stat().st_size, _crc32(path))


def check(path: Path, part: Part, *, whole: bool = False) -> None:
    """Compare the size; and the checksum of a small file, or (``whole``) of any.

    Raises
    ------
    IndexDamaged
        naming the file where it is missing or is not what was written.
    """
    if not path.is_file():
        raise IndexDamaged(f"{path}: missing")
    size = path.stat().st_size
    if size != part.bytes:
        raise IndexDamaged(f"{path}: damaged ({size} bytes, {part.bytes} were written)")
    if (whole or size <= _SMALL) and _crc32(path) != part.crc32:
        raise IndexDamaged(f"{path}: damaged (its checksum differs)")


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable, where the system lets a folder be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _parts(raw: Mapping[str, Any]) -> dict[str, Part]:
    return {name: Part(**one) for name, one in raw.items()}


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
