"""What keeps the memory of a long computation on the processor from growing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import monotonic

_SECONDS = 5.0


class FreeMemory:
    """Gives freed memory back to the system, every few seconds.

    glibc keeps it for later tensors. Batches of ever other lengths need tensors of ever other sizes, which
    tear it into pieces, and so a training grows to several times of what it uses. Other C libraries give
    memory back by themselves. ``clock`` gives the time in seconds.
    """

    def __init__(self, seconds: float = _SECONDS, *, clock: Callable[[], float] = monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._last = clock()
        self._trim: Callable[[int], int] | None
        try:
            self._trim = ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError, TypeError):  # another C library
            self._trim = None

    def give_back(self) -> bool:
        """Give free memory back if it is time; False if nothing was given."""
        if self._trim is None or self._clock() - self._last < self._seconds:
            return False
        given = bool(self._trim(0))
        self._last = self._clock()
        return given
