"""The protocol of a task: all that the training loop knows of a model and its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from telerank.models.precision import Precision
from telerank.training.parallel import Processes
from telerank.types import Progress


@dataclass(frozen=True)
class TrainingDevice:
    """The device, precision and processes that a task computes with.

    ``precision`` makes the context for a model's products; losses and inner products, which stay in float32,
    are computed outside of it. ``processes`` share each batch.
    """

    device: torch.device
    precision: Precision
    processes: Processes


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Compute with a module in evaluation mode and without gradients; its mode is restored at the end."""
    mode = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(mode)


class Task(Protocol):
    """A model and its batches; the batch of each number is always the same, so that training resumes."""

    @property
    def modules(self) -> Sequence[nn.Module]:
        """Modules to move to the device and to put in training mode; weights with a gradient are trained."""

    @property
    def examples(self) -> int:
        """Number of examples in an epoch; it is only asked for if something is set in epochs."""

    def prepare(self, number: int, progress: Progress) -> None:
        """Prepare batch ``number``: called before each; most tasks need do nothing.

        If several processes train, the first process's call ends before those of the others begin.
        """

    def backward(self, number: int) -> float:
        """Add the gradients of batch ``number`` to the present ones, and return its loss.

        If several processes train, each takes ``processes.share`` of the batch, and the gradients and losses
        of all of them sum to those of the batch.
        """

    def dev(self, progress: Progress) -> float | None:
        """The dev measure, higher is better; None without a dev set. Called in the first process."""

    def dev_loss(self, progress: Progress) -> float | None:
        """The loss on the dev set, without dropout, of the same batches each time; None if there are none.

        Called in the first process, after :meth:`dev` if that is called.
        """

    def save(self, folder: Path) -> None:
        """Write the model into a folder that does not exist yet. Called in the first process."""

    def state(self) -> Mapping[str, Tensor]:
        """The tensors by name that a checkpoint needs besides the files of :meth:`save`.

        Called in every process; those of the first are written.
        """

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the :meth:`state` of a checkpoint; the task was made from its model."""


MakeTask: TypeAlias = Callable[[Path | None, TrainingDevice, Progress], Task]
"""Makes a task, in every process: with a fresh model, or with the one that :meth:`Task.save` wrote."""
