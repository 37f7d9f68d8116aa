"""Where a model computes, by name."""

from __future__ import annotations

import torch

from telerank.errors import ModelError


def device_of(name: str) -> torch.device:
    """``cpu``, ``cuda``, ``cuda:1``; ``auto`` is the GPU where there is one.

    Raises
    ------
    ModelError
        where there is no such device, or none to be used here.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        wanted = torch.device(name)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r}: {str(error).splitlines()[0]}") from error
    return wanted
