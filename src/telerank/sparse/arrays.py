"""Memory-mapped arrays in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from telerank.errors import IndexDamaged
from telerank.npy import load_npy


def map_array(path: Path, kind: str) -> npt.NDArray[Any]:
    """Map the array in a file, whose type must be ``kind`` (numpy's code of a type)."""
    array = load_npy(path, mmap_mode="r")
    if array.dtype != kind:
        raise IndexDamaged(f"{path}: damaged (numbers of type {array.dtype}, not {np.dtype(kind)})")
    return np.asarray(array)


def create_array(path: Path, kind: type[np.generic], size: int) -> np.memmap[Any, Any]:
    """Create an array in a file, to be written to as if in memory; the caller calls ``flush``."""
    # zeros are written now: a process that later finds the disk full while writing a mapped page is killed
    np.save(path, np.zeros(size, kind))
    array: np.memmap[Any, Any] = load_npy(path, mmap_mode="r+")
    return array
