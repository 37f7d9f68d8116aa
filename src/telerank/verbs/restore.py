"""Restoring an index from its backup."""

from __future__ import annotations

from pathlib import Path

from telerank.retrieval.backup import restore_index
from telerank.retrieval.index import Index
from telerank.show.progress import show_progress
from telerank.types import ProgressSetting


def restore(
    backup: str | Path, folder: str | Path, *, overwrite: bool = False, progress: ProgressSetting = None
) -> Index:
    """Restore the index of a backup (a folder or a tar file) into a folder; the index.

    With ``overwrite`` an index that is there is replaced, in one step at the end.

    >>> tr.open("idx").backup("idx.tar")
    >>> index = tr.restore("idx.tar", "restored")

    Raises
    ------
    IndexFault
        If there is no backup, or the folder holds something already.
    IndexDamaged
        If a file of the backup is missing, damaged, or not one of an index; then nothing is restored.
    IndexLocked
        If another process writes to the index that is there.
    """
    with show_progress(progress) as shown:
        restore_index(backup, folder, overwrite=overwrite, progress=shown)
    return Index(folder)
