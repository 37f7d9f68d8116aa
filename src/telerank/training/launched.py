"""Whether ``torchrun`` has started this process beside others; torch is loaded if they are joined."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from telerank.training.parallel import Processes

T = TypeVar("T")


def is_shared() -> bool:
    """Whether several processes were started together."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this is the process that writes and reports: the first one, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def join(device: str | None) -> str:
    """Connect the processes until they end; the name of this one's device: on a machine each has a GPU.

    Raises
    ------
    ModelError
        If there is no such device.
    """
    from telerank.training.parallel import join_processes
    from telerank.training.task import choose_device

    chosen = choose_device(device or "auto")
    with join_processes(chosen):
        return str(chosen)


@contextmanager
def working_together() -> Iterator[Processes]:
    """The processes that :func:`join` has connected, or this one, while they exchange values.

    An error that this process alone has ends the others, with one line; and one of theirs this one.
    """
    import torch

    from telerank.training.parallel import NO_PEER, ProcessError, join_processes

    try:
        with join_processes(torch.device("cpu")) as processes:
            yield processes
    except RuntimeError as error:
        if any(words in str(error) for words in NO_PEER):
            raise ProcessError from error
        raise


def each(do: Callable[[], T]) -> T:
    """Call ``do`` in every process, which returns its own value; the error of one is raised in all."""
    if not is_shared():
        return do()
    with working_together() as processes:
        return processes.each(do)


def gather(value: T) -> list[T]:
    """The values of all processes."""
    if not is_shared():
        return [value]
    with working_together() as processes:
        return processes.gather_values(value)
