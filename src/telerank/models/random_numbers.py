"""The state of torch's random numbers: only those of the processor and of the device that computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class RandomNumbers:
    """The state of the generators that a computation on a device draws from, to draw the same again.

    No other GPU is asked for its state, and without a GPU none is started.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cpu = torch.get_rng_state()
        self._gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        """Bring the generators back to the state."""
        torch.set_rng_state(self._cpu)
        if self._gpu is not None:
            torch.cuda.set_rng_state(self._gpu, self._device)

    def tensors(self) -> dict[str, Tensor]:
        """The state by name: ``cpu``, and ``gpu`` if the device is one."""
        return {"cpu": self._cpu} if self._gpu is None else {"cpu": self._cpu, "gpu": self._gpu}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw on the processor from ``seed``; afterwards its generator goes on as before. GPUs are untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
