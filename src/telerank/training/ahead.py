"""The next batch, made in a thread while a GPU computes with the present one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import fields
from typing import Any, Generic, TypeVar

import torch

from telerank.models.inference import pin

T = TypeVar("T")


class BatchesAhead(Generic[T]):
    """The batches that ``make`` makes of their numbers; on a processor each is made when it is taken.

    An error of the thread is raised where its batch is taken.
    """

    def __init__(self, make: Callable[[int], T], device: torch.device) -> None:
        self._make = make
        self._next: tuple[int, Future[T]] | None = None
        self._thread: ThreadPoolExecutor | None = None
        if device.type != "cpu":
            self._thread = ThreadPoolExecutor(1, "batches", _choose_gpu, (device,))

    @property
    def beside(self) -> bool:
        """Whether batches are made beside the device."""
        return self._thread is not None

    def take(self, number: int) -> T:
        """Batch ``number``."""
        begun, self._next = self._next, None
        if begun is not None and begun[0] == number:
            return begun[1].result()
        return self._make(number)

    def begin(self, number: int) -> None:
        """Begin to make batch ``number``, the next to be taken. What it reads must not change until then."""
        if self._thread is not None:
            self._next = number, self._thread.submit(self._make, number)

    def rest(self) -> None:
        """Wait until the thread does nothing, before anything else uses what it reads."""
        if self._next is not None:
            wait([self._next[1]])


def pin_all(batch: T, device: torch.device) -> T:
    """A dataclass of tensors, each as :func:`~telerank.models.inference.pin` gives it."""
    values = {each.name: getattr(batch, each.name) for each in fields(batch)}  # type: ignore[arg-type]
    return type(batch)(**{name: pin(value, device) for name, value in values.items()})


def _choose_gpu(device: torch.device) -> Any:
    """Pin memory for the GPU that computes: a thread begins with the first one."""
    if device.type == "cuda" and device.index is not None and torch.cuda.is_available():
        torch.cuda.set_device(device)
