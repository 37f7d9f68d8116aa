"""Reading of ``.npy`` files from several threads."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from telerank.errors import IndexDamaged

_LOCK = Lock()


def load_npy(file: Path | IO[bytes], mmap_mode: Literal["r", "r+"] | None = None) -> Any:
    """``np.load``, one thread at a time.

    numpy parses the header as Python, and CPython 3.11 may raise SystemError if two threads parse at once.
    Raises ValueError if the file holds no array.
    """
    try:
        with _LOCK:
            array = np.load(file, mmap_mode=mmap_mode)
    except (EOFError, OverflowError, BadZipFile) as error:
        raise ValueError(str(error)) from error
    if not isinstance(array, np.ndarray):
        raise ValueError("several arrays")  # noqa: TRY004 — of a .npz file
    return array


def map_npy(
    path: Path, kind: npt.DTypeLike, shape: tuple[int, ...] | None = None, *, mapped: bool = True
) -> npt.NDArray[Any]:
    """The array in a file, memory-mapped; without ``mapped`` it is loaded.

    Raises
    ------
    IndexDamaged
        If it cannot be read, or has another type or shape (None: any).
    """
    try:
        array = load_npy(path, mmap_mode="r" if mapped else None)
    except (ValueError, OSError) as error:
        raise IndexDamaged(f"{path}: damaged ({error})") from error
    if array.dtype != kind or shape not in (None, array.shape):
        expected = f"{np.dtype(kind)} {shape or ''}".rstrip()
        raise IndexDamaged(f"{path}: damaged ({array.dtype} {array.shape}, not {expected})")
    return np.asarray(array)
