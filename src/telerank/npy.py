"""Arrays in files, read by any number of threads."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal

import numpy as np

_ONE = Lock()


def load_npy(file: Path | IO[bytes], mmap_mode: Literal["r", "r+"] | None = None) -> Any:
    """As ``np.load``, one thread at a time.

    numpy parses a header as Python; CPython 3.11 may raise a SystemError where two threads parse at a time.
    """
    with _ONE:
        return np.load(file, mmap_mode=mmap_mode)
