"""The manifest of an index: replacing this one file is what commits a change.

Opening an index compares the sizes of all files and the checksums of small ones (4 MiB and less).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from telerank.errors import IndexFault
from telerank.stored import MANIFEST, StoredFile, parse_entries, read_manifest, write_manifest

FORMAT = 1


@dataclass(frozen=True)
class SegmentEntry:
    """A segment: its counts, from which statistics are computed, and its files by name."""

    name: str
    documents: int
    nonempty: int
    tokens: int
    files: Mapping[str, StoredFile]
    deleted: str | None = None
    deletions: int = 0


@dataclass(frozen=True)
class IndexManifest:
    """An index at one moment; ``generation`` grows with every commit.

    ``fingerprint`` is the analyzer's: another release of a stemmer may make other terms under the same name.
    """

    analyzer: str
    fingerprint: str
    segments: tuple[SegmentEntry, ...] = ()
    generation: int = 0
    built_with: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> IndexManifest:
        """The manifest of an index."""
        if not (folder / MANIFEST).is_file():
            raise IndexFault(f"{folder}: no index here ({MANIFEST} is missing)")
        return read_manifest(folder, cls._build, version=FORMAT)

    def write(self, folder: Path) -> None:
        """Commit the change that this manifest describes."""
        write_manifest(folder, asdict(self))

    @classmethod
    def _build(cls, record: dict[str, Any]) -> IndexManifest:
        return cls(**{**record, "segments": parse_entries(SegmentEntry, record["segments"])})


@cache
def read_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide what an index holds."""
    from importlib.metadata import version
    from platform import python_version

    packages = ("telerank", "numpy", "numba", "PyStemmer")
    return {"python": python_version(), **{name: version(name) for name in packages}}
