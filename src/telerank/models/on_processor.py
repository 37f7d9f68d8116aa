"""Training on a processor: dropout faster than torch's; memory that is kept for a while, and given back.

torch draws a random number for each element by itself, which takes a good part of an update of a small
encoder. Here 16 random bits decide an element. The seed of the bits is the one number that torch draws, so
that the state of torch's random numbers is still all that a checkpoint needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from telerank.compiled import compiled
from telerank.models.precision import Precision

_STEPS = 1 << 16
_FEW = 1 << 12  # elements for which torch is no slower
_PATTERNS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Integers as long as the numbers of a type; numpy has no bfloat16."""


class QuickDropout(TorchFunctionMode):
    """A context in which dropout on a processor is :func:`drop`, in every layer of a model."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is functional.dropout:
            return drop(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def with_quick_dropout(precision: Precision) -> Precision:
    """The context of a precision, in which dropout is :func:`drop`."""

    @contextmanager
    def opened() -> Iterator[None]:
        with precision(), QuickDropout():
            yield

    return opened


def drop(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:  # noqa: A002
    """As :func:`torch.nn.functional.dropout`, with ``p`` rounded to a multiple of 2^-16."""
    dropped = round(p * _STEPS)
    is_slow = input.device.type == "cpu" and input.dtype in _PATTERNS and input.numel() >= _FEW
    if not (training and is_slow and 0 < dropped < _STEPS):
        return functional.dropout(input, p, training, inplace)
    # zero in the mean for ``dropped`` of 2^16 elements, and otherwise what keeps the mean
    seed = int(torch.randint(torch.iinfo(torch.int64).max, ()))
    factors = torch.empty(-(-input.numel() // 4) * 4, dtype=input.dtype)
    kept = torch.tensor(_STEPS / (_STEPS - dropped), dtype=input.dtype)
    integers = _PATTERNS[input.dtype]
    _fill(factors.view(integers).numpy(), int(kept.view(integers)), np.uint64(dropped), np.uint64(seed))
    return input * factors[: input.numel()].view(input.shape)


@compiled
def _fill(patterns: Any, kept: int, dropped: Any, seed: Any) -> None:
    """Set each to ``kept``, or to 0 if 16 bits of the generator SFC64 are below ``dropped``.

    The length is a multiple of four.
    """
    a, b, c, count = seed, np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03), np.uint64(1)
    mask = np.uint64(0xFFFF)
    for i in range(-12, len(patterns) // 4):  # twelve rounds mix the seed
        bits = a + b + count
        count += np.uint64(1)
        a = b ^ (b >> np.uint64(11))
        b = c + (c << np.uint64(3))
        c = ((c << np.uint64(24)) | (c >> np.uint64(40))) + bits
        if i >= 0:
            patterns[4 * i] = kept if (bits & mask) >= dropped else 0
            patterns[4 * i + 1] = kept if ((bits >> np.uint64(16)) & mask) >= dropped else 0
            patterns[4 * i + 2] = kept if ((bits >> np.uint64(32)) & mask) >= dropped else 0
            patterns[4 * i + 3] = kept if (bits >> np.uint64(48)) >= dropped else 0


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4
"""Numbers of glibc's settings (malloc.h)."""
_KEEPING = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 1 << 30, _TOP_PAD: 1 << 26}
_AS_LATER = {_MMAP_MAX: 1 << 16, _TRIM_THRESHOLD: 1 << 26, _TOP_PAD: 1 << 17, _MMAP_THRESHOLD: 1 << 25}
"""glibc's own, with the thresholds that it reaches by itself once large blocks were freed."""


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Let glibc keep the memory of large tensors for the next ones, whose pages need no clearing then.

    By default the tensors of each update are new pages, which the system clears: a quarter of an update of
    a small encoder. What is kept grows with the sizes of the tensors: use :class:`FreeMemory`, too. Other C
    libraries are left as they are.
    """
    try:
        configure = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        configure = None
    if configure is None or not all(configure(name, value) for name, value in _KEEPING.items()):
        yield
        return
    try:
        yield
    finally:
        for name, value in _AS_LATER.items():
            configure(name, value)


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
