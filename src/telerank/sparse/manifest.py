"""The folder of an index and its manifest: replacing this one file is what commits a change.

Opening an index compares the sizes of all files and the checksums of small ones (4 MiB and less).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from telerank import drafts
from telerank.errors import IndexFault
from telerank.stored import MANIFEST, MANIFEST_DRAFT, Manifest, StoredFile, versions

LOCK = "write.lock"
SEGMENTS = "segments"
# The folder for vectors of the documents, with a folder for each model.
VECTORS = "vectors"
# Models and texts of pipelines that are kept with an index.
MODELS, PIPELINES = "models", "pipelines.json"
# The folder for the record of the files that an index was made from.
FILES = "files"


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
class IndexManifest(Manifest):
    """An index at one moment; ``generation`` grows with every commit.

    ``fingerprint`` is the analyzer's: another release of a stemmer may make other terms under the same name.
    """

    analyzer: str
    fingerprint: str
    segments: tuple[SegmentEntry, ...] = ()
    generation: int = 0
    built_with: Mapping[str, str] = field(default_factory=dict)
    format: int = 1

    @classmethod
    def read(cls, folder: Path) -> Self:
        if not has_index(folder):
            raise IndexFault(f"{folder}: no index here ({MANIFEST} is missing)")
        return super().read(folder)


def has_index(folder: Path) -> bool:
    """Whether a folder holds an index, or something else with a manifest."""
    return (folder / MANIFEST).is_file()


def read_committed(folder: Path) -> IndexManifest:
    """The manifest on the disk; one of generation 0, without analyzer, if there is none yet."""
    return IndexManifest.read(folder) if has_index(folder) else IndexManifest("", "")


def check_contents(folder: Path) -> None:
    """Raise IndexFault if a folder holds more than an index, or than a killed writer left of one."""
    if folder.exists() and not folder.is_dir():
        raise IndexFault(f"{folder}: is a file, not a folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST in names and LOCK not in names:
        IndexManifest.read(folder)  # refuses a manifest of another kind
    # without either, a folder named segments may belong to another program
    ours = (
        {MANIFEST, MANIFEST_DRAFT, LOCK, SEGMENTS, VECTORS, MODELS, PIPELINES, FILES}
        if {MANIFEST, LOCK} & names
        else set()
    )
    if others := sorted(names - ours):
        raise IndexFault(f"{folder}: holds other things ({others[0]}); an index needs a folder of its own")


def sweep_index(folder: Path) -> None:
    """Remove segments and files that the manifest does not name: replaced ones, those of a killed writer.

    The next writer removes what cannot be removed now, because a process still writes to it.
    """
    try:
        named = {entry.name: entry.files for entry in read_committed(folder).segments}
    except IndexFault:  # nothing is removed before its replacement exists
        return
    drafts.remove(folder / MANIFEST_DRAFT)
    segments = folder / SEGMENTS
    drafts.sweep(segments.iterdir(), named)
    for name, files in named.items():
        drafts.sweep((segments / name).iterdir(), files)


def read_versions() -> dict[str, str]:
    """The versions of Python and of the packages that decide what an index holds."""
    decide = ("python", "telerank", "numpy", "numba", "PyStemmer")
    return {name: version for name, version in versions().items() if name in decide}
