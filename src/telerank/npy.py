"""Reading of ``.npy`` files from several threads."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal

import numpy as np

_LOCK = Lock()


def load_npy(file: Path | IO[bytes], mmap_mode: Literal["r", "r+"] | None = None) -> Any:
    """``np.load``, one thread at a time.

    numpy parses the header as Python, and CPython 3.11 may raise SystemError if two threads parse at once.
    """
    with _LOCK:
        return np.load(file, mmap_mode=mmap_mode)
