"""The device that computes a model, by name."""

from __future__ import annotations

import torch

from telerank.errors import ModelError


def device_of(name: str) -> torch.device:
    """The device called ``cpu``, ``cuda`` or ``cuda:1``; ``auto`` is the GPU if there is one.

    Raises
    ------
    ModelError
        If there is no such device on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {name!r}: {str(error).splitlines()[0]}") from error
    return device
