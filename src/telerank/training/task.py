"""What a training learns: the loop knows no more of a model than this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from torch import nn

from telerank.models.precision import Precision
from telerank.training.parallel import Processes
from telerank.types import Progress


@dataclass(frozen=True)
class TrainingDevice:
    """Where a task computes.

    ``precision`` makes the context for a model's products; what should stay float32 whatever it is, as losses
    and inner products, is computed outside of it. ``processes`` share each batch.
    """

    device: torch.device
    precision: Precision
    processes: Processes


class Task(Protocol):
    """Batches are numbered from 0; the batch of each number is always the same, so that training resumes."""

    @property
    def modules(self) -> Sequence[nn.Module]:
        """What is moved to the device and put in the mode of training; what needs a gradient is trained."""

    @property
    def examples(self) -> int | None:
        """How many there are in an epoch; None where nobody knows, and then epochs cannot be asked for."""

    def prepare(self, number: int, progress: Progress) -> None:
        """Be ready for batch ``number``: called before each; most need do nothing.

        Where several processes train, the first process's call ends before those of the others begin.
        """

    def backward(self, number: int) -> float:
        """Add the gradients of batch ``number`` to those that are there; its loss.

        Where several processes train: of ``place.processes.share`` of the batch, such that gradients and
        losses of all of them add up to those of the batch.
        """

    def dev(self, progress: Progress) -> float | None:
        """The dev measure, higher is better; None where there is no dev set. Called in the first process."""

    def save(self, folder: Path) -> None:
        """Write the model into a folder that is not there yet. Called in the first process."""

    def state(self) -> Mapping[str, Any]:
        """What a checkpoint must hold besides what :meth:`save` writes: tensors and plain values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Have the :meth:`state` of a checkpoint; the task was made from the folder of its model."""


Make: TypeAlias = Callable[[Path | None, TrainingDevice, Progress], Task]
"""Makes a task, in every process: anew, or with the model that :meth:`Task.save` wrote into the folder."""
