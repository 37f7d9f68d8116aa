"""The folder of an index: its contents, its lock, and removal of what a killed writer left."""

from __future__ import annotations

from pathlib import Path

from telerank import stored
from telerank.errors import IndexFault
from telerank.sparse.manifest import IndexManifest
from telerank.stored import MANIFEST, MANIFEST_DRAFT

LOCK = "write.lock"
SEGMENTS = "segments"
VECTORS = "vectors"
"""The folder for vectors of the documents, with a folder for each model."""
MODELS, PIPELINES = "models", "pipelines.json"
"""Models and texts of pipelines that are kept with an index."""
NO_INDEX = IndexManifest("", "")


def read_committed(folder: Path) -> IndexManifest:
    """The manifest on the disk; :data:`NO_INDEX` if there is none yet."""
    return IndexManifest.read(folder) if (folder / MANIFEST).is_file() else NO_INDEX


def check_contents(folder: Path) -> None:
    """Raise IndexFault if a folder holds more than an index, or than a killed writer left of one."""
    if folder.exists() and not folder.is_dir():
        raise IndexFault(f"{folder}: is a file, not a folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST in names and LOCK not in names:
        IndexManifest.read(folder)  # refuses a manifest of another kind
    # without either, a folder named segments may belong to another program
    ours = (
        {MANIFEST, MANIFEST_DRAFT, LOCK, SEGMENTS, VECTORS, MODELS, PIPELINES}
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
    stored.remove(folder / MANIFEST_DRAFT)
    segments = folder / SEGMENTS
    stored.sweep(segments.iterdir(), named)
    for name, files in named.items():
        stored.sweep((segments / name).iterdir(), files)
