"""The folder of an index: what belongs there, what a killed writer left, what holds the lock."""

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


def committed(folder: Path) -> IndexManifest:
    """The manifest on the disk; :data:`NO_INDEX` where there is none yet."""
    return IndexManifest.read(folder) if (folder / MANIFEST).is_file() else NO_INDEX


def refuse_others(folder: Path) -> None:
    """See that a folder, if it is there, holds no more than an index, or what a killed writer left of one.

    Raises
    ------
    IndexFault
        where it holds anything else, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise IndexFault(f"{folder}: is a file, not a folder")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if MANIFEST in there and LOCK not in there:
        IndexManifest.read(folder)  # a manifest of another kind is no sign of an index
    # without either, a folder that is called segments may be anybody's
    ours = (
        {MANIFEST, MANIFEST_DRAFT, LOCK, SEGMENTS, VECTORS, MODELS, PIPELINES}
        if {MANIFEST, LOCK} & there
        else set()
    )
    if others := sorted(there - ours):
        raise IndexFault(f"{folder}: holds other things ({others[0]}); an index needs a folder of its own")


def sweep(folder: Path) -> None:
    """Remove what the manifest does not name: what was replaced, what a killed writer left.

    What cannot be removed (its process may still be writing there) is left to the next writer.
    """
    try:
        named = {entry.name: entry.files for entry in committed(folder).segments}
    except IndexFault:  # nothing goes before what takes its place is there
        return
    stored.remove(folder / MANIFEST_DRAFT)
    segments = folder / SEGMENTS
    stored.sweep(segments.iterdir(), named)
    for name, files in named.items():
        stored.sweep((segments / name).iterdir(), files)
