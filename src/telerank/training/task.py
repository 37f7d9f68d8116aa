"""The protocol of a task, all that the loop knows of a model and its data; and what a task computes with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from telerank.errors import ModelError
from telerank.models.inference import pin
from telerank.models.precision import Precision, device_of, resolve_precision
from telerank.models.precision import precision as open_precision
from telerank.training.parallel import GradientSums, Processes, is_launched
from telerank.types import Progress

T = TypeVar("T")


@dataclass(frozen=True)
class TrainingDevice:
    """The device, precision and processes that a task computes with.

    ``precision`` makes the context for a model's products; losses and inner products, which stay in float32,
    are computed outside of it. ``processes`` share each batch. The ``scaler`` is that of float16.
    ``sums`` adds the gradients of all processes.
    """

    device: torch.device
    precision: Precision
    processes: Processes
    scaler: torch.amp.GradScaler | None = None
    sums: GradientSums = field(default_factory=GradientSums, compare=False)

    def scale(self, loss: Tensor) -> Tensor:
        """The loss whose gradients are to be added: in float16 it is scaled, so that no gradient vanishes."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradients of a loss; ``last`` says that it is the last one of this process's batch."""
        with self.sums.last() if last else nullcontext():
            self.scale(loss).backward()  # type: ignore[no-untyped-call]


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


def pin_all(batch: T, device: torch.device) -> T:
    """A dataclass of tensors, each as :func:`~telerank.models.inference.pin` gives it."""
    values = {each.name: getattr(batch, each.name) for each in fields(batch)}  # type: ignore[arg-type]
    return type(batch)(**{name: pin(value, device) for name, value in values.items()})


def freeze_embeddings(transformer: Any) -> None:
    """Let the word embeddings of one of transformers' models get no gradient."""
    transformer.get_input_embeddings().requires_grad_(False)


def choose_device(name: str) -> torch.device:
    """The device of that name; processes on the same machine get a GPU each.

    Raises
    ------
    ModelError
        If there is no such device, or it cannot be used.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if is_launched() and name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    elif int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1 and name.startswith("cuda"):
        raise ModelError(f"device {name!r}: each process has a GPU of its own, so name it 'cuda'")
    return device_of(name)


def choose_precision(name: str, device: torch.device) -> Precision:
    """The precision of that name; ``auto`` is bfloat16 on a GPU that supports it, else float32.

    ``float16`` is for trainings alone, whose gradients are scaled (:class:`TrainingDevice`).
    """
    if name == "float16":
        return lambda: torch.autocast(device.type, dtype=torch.float16)
    return open_precision(resolve_precision(name, device), device)


class Task(Protocol):
    """A model and its batches; the batch of each number is always the same, so that training resumes."""

    @property
    def models(self) -> Sequence[Sequence[nn.Module]]:
        """The modules of each model, usually one: the gradients of each are limited as if it were alone.

        They are moved to the device and put in training mode; weights with a gradient are trained.
        """

    @property
    def examples(self) -> int:
        """Number of examples in an epoch; it is only asked for if something is set in epochs."""

    def prepare(self, number: int, progress: Progress) -> None:  # noqa: ARG002 — nothing by default
        """Prepare batch ``number``: called before each, in every process; most tasks need do nothing."""
        return

    def read(self, number: int) -> Any:
        """The tensors of batch ``number`` on the processor, for :meth:`backward`; a function of the number.

        Called after :meth:`prepare`. Where a GPU computes, a thread calls it while the batch before it is
        learned from.
        """

    def backward(self, batch: Any) -> Tensor:
        """Add the gradients of a batch that was :meth:`read` to the present ones, and return its loss.

        The loss is a number in float64 on the device, which nothing waits for.

        If several processes train, each takes ``processes.share`` of the batch, and the gradients and losses
        of all of them sum to those of the batch. Summing begins during the last backward pass if it runs
        within ``sums.last()``, else after it (:class:`TrainingDevice`).
        """

    def dev(self, progress: Progress) -> float | None:
        """The dev measure, which the settings of dev say how to compare; None without a dev set.

        Called in every process; all return the same value.
        """

    def dev_facts(self) -> Mapping[str, float]:
        """What else the last :meth:`dev` says of the model, by name: a sparse one's numbers of terms."""
        return {}

    def dev_loss(self, progress: Progress) -> float | None:  # noqa: ARG002 — none by default
        """The loss on the dev set, without dropout, of the same batches each time; None if there are none.

        Called in every process, after :meth:`dev` if that is called; all return the same value.
        """
        return None

    def save(self, folder: Path) -> None:
        """Write the model into a folder that does not exist yet. Called in the first process."""

    def state(self) -> Mapping[str, Tensor]:
        """The tensors by name that a checkpoint needs besides the files of :meth:`save`.

        Called in every process; those of the first are written.
        """
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:  # noqa: ARG002 — nothing by default
        """Restore the :meth:`state` of a checkpoint; the task was made from its model."""
        return
