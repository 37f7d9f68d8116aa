"""Functions compiled by numba, their machine code kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function as machine code that runs without the interpreter's lock; ``options`` are numba's.

    The code is kept beside the function's file, or else in the user's cache; ``NUMBA_CACHE_DIR`` names
    another folder. Where none of them can be written to (a service without a home, a package installed by
    another user) each process compiles what it calls, some seconds' work.
    """
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(nogil=True, **options)(function)
