"""Functions compiled by numba, which is loaded when the first of them is called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from threading import RLock
from typing import Any

_LOCK = RLock()


class compiled:  # noqa: N801 — a decorator
    """The function as machine code that runs without the interpreter's lock; ``options`` are numba's.

    The code is kept beside the function's file, or else in the user's cache; ``NUMBA_CACHE_DIR`` names
    another folder. If none of them can be written to (a service without a home, a package installed by
    another user), each process compiles what it calls, which takes seconds.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._function, self._options = function, options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        with _LOCK:
            dispatcher = self._load()
        return dispatcher(*arguments)

    def _load(self) -> Any:
        """The dispatcher; the module's compiled functions call each other, so all become dispatchers."""
        if self._dispatcher is None:
            import numba

            compile_ = partial(numba.njit, nogil=True, **self._options)
            try:
                self._dispatcher = compile_(cache=True)(self._function)
            except RuntimeError:  # no folder to keep it in
                self._dispatcher = compile_()(self._function)
            names = self._function.__globals__
            for name, value in list(names.items()):
                if isinstance(value, compiled):
                    names[name] = value._load()  # noqa: SLF001
        return self._dispatcher


class ColdStart:
    """Decides whether numpy or Python does some work that compiled code would do faster.

    Loading numba takes a second of processor time; other code handles half a million elements meanwhile.
    """

    def __init__(self, limit: int = 1 << 19) -> None:
        self._left = limit

    def covers(self, elements: int) -> bool:
        """Whether numba is not loaded, and these elements and all before them are too few to load it."""
        if "numba" in sys.modules:
            return False
        self._left -= elements
        return self._left >= 0


# Of this process.
cold_start = ColdStart()


def start_warm() -> None:
    """Load numba now: in a process that lives long, no later call should have to."""
    import_module("numba")


@compiled
def select_largest(keys: Any, count: int, k: int) -> Any:
    """Move the ``k`` largest of the first ``count`` keys to the front (Hoare); return their smallest."""
    low, high, last_kept = 0, count - 1, k - 1
    while low < high:
        first, middle, last = keys[low], keys[(low + high) >> 1], keys[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i, j = low, high
        while i <= j:
            while keys[i] > pivot:
                i += 1
            while keys[j] < pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if last_kept <= j:
            high = j
        elif last_kept >= i:
            low = i
        else:
            break
    return keys[last_kept]
