"""The folder of an index: what belongs there, what a killed writer left, what holds the lock."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from telerank.errors import IndexFault
from telerank.sparse import manifest as manifests
from telerank.sparse.manifest import IndexManifest

LOCK = "write.lock"
SEGMENTS = "segments"
VECTORS = "vectors"
"""Where ``telerank encode`` puts vectors of an index's documents, a folder for each model."""
NO_INDEX = IndexManifest("", "")


def committed(folder: Path) -> IndexManifest:
    """The manifest on the disk; :data:`NO_INDEX` where there is none yet."""
    return IndexManifest.read(folder) if (folder / manifests.NAME).is_file() else NO_INDEX


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
    if manifests.NAME in there and LOCK not in there:
        IndexManifest.read(folder)  # a manifest of another kind is no sign of an index
    # without either, a folder that is called segments may be anybody's
    ours = (
        {manifests.NAME, manifests.BESIDE, LOCK, SEGMENTS, VECTORS}
        if {manifests.NAME, LOCK} & there
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
    _remove(folder / manifests.BESIDE)
    for path in (folder / SEGMENTS).iterdir():
        files = named.get(path.name)
        for stale in [path] if files is None else path.iterdir():
            if files is None or stale.name not in files:
                _remove(stale)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
