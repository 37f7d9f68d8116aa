"""Whether ``torchrun`` has started this process beside others; torch is loaded if they are joined."""

from __future__ import annotations

import os


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
    from telerank.training.training import choose_device

    chosen = choose_device(device or "auto")
    with join_processes(chosen):
        return str(chosen)
