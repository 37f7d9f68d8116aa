"""Arrays in files, memory-mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.errors import IndexDamaged
from telerank.npy import load_npy


def mapped(path: Path, kind: str) -> npt.NDArray[Any]:
    """The array in a file, which must be of this kind (numpy's code of a type).

    Raises
    ------
    IndexDamaged
        where it is of another.
    """
    found = load_npy(path, mmap_mode="r")
    if found.dtype != kind:
        raise IndexDamaged(f"{path}: damaged (numbers of type {found.dtype}, not {np.dtype(kind)})")
    return np.asarray(found)


def created(path: Path, kind: type[np.generic], size: int) -> np.memmap[Any, Any]:
    """A new array in a file, to be written to as if in memory; ``flush`` is the caller's."""
    # zeros are really written: where a mapped page later finds the disk full, the process is killed
    np.save(path, np.zeros(size, kind))
    found: np.memmap[Any, Any] = load_npy(path, mmap_mode="r+")
    return found
